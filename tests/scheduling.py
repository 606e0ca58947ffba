"""Pytest plugin: one worker runs all tests of a folder that shares something costly.

These folders come first and the longest of them foremost, or a run would end with one worker
waiting for the other; the files of all others follow in random order, each a piece of work.
"""

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# Each starts a platform or servers of a kind that no other folder needs, or renders the chart.
TOGETHER = (
    "tests/integration/podium_cli/",
    "tests/integration/episodes/",
    "tests/e2e/",
    "tests/integration/misbehaviour/",
    "tests/workflows/",
    "tests/integration/cost_ledger/complaints/",
    "tests/integration/podium_training/grpo/",
    "tests/chart/",
)


class ByPlatform(LoadScopeScheduling):  # type: ignore[misc]  # xdist leaves it untyped
    """A piece of work is such a folder, or a file."""

    def _split_scope(self, nodeid: str) -> str:
        place = rank(nodeid)
        return nodeid.split("::", 1)[0] if place == len(TOGETHER) else TOGETHER[place]


def rank(nodeid: str) -> int:
    found = (place for place, folder in enumerate(TOGETHER) if nodeid.startswith(folder))
    return next(found, len(TOGETHER))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Sorting keeps the random order within each place.
    items.sort(key=lambda item: rank(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByPlatform:
    config.option.loadscopereorder = False
    return ByPlatform(config, log)
