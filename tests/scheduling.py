"""Pytest plugin: one worker runs all tests of a folder that shares something costly.

These folders come first and the longest of them foremost, or a run would end with one worker
waiting for the other; the files of all others follow in random order, each a piece of work.
What such a folder shares ends with its last test: an idle platform would take processor time from
the rest of the run.
"""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# Each starts a platform or servers of a kind that no other folder needs, or renders the chart.
TOGETHER = (
    "tests/integration/podium_cli/",
    "tests/integration/episodes/",
    "tests/e2e/",
    "tests/integration/pages/",
    "tests/integration/misbehaviour/",
    "tests/workflows/",
    "tests/integration/podium_training/grpo/",
    "tests/chart/",
)

Shared = tuple[pytest.FixtureDef[Any], pytest.FixtureRequest]
SHARED = pytest.StashKey[list[Shared]]()


class ByPlatform(LoadScopeScheduling):  # type: ignore[misc]  # xdist leaves it untyped
    """A piece of work is such a folder, or a file."""

    def _split_scope(self, nodeid: str) -> str:
        place = rank(nodeid)
        return nodeid.split("::", 1)[0] if place == len(TOGETHER) else TOGETHER[place]


def rank(nodeid: str) -> int:
    found = (place for place, folder in enumerate(TOGETHER) if nodeid.startswith(folder))
    return next(found, len(TOGETHER))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Each worker collects another folder first, and reads what the others compiled of the rest."""
    config = session.config
    worker = getattr(config, "workerinput", None)
    if worker is None or config.args != config.getini("testpaths"):
        return
    tests = {folder: len([*folder.rglob("test_*.py")]) for folder in Path(*config.args).iterdir()}
    folders = sorted((each for each in tests if tests[each]), key=lambda each: -tests[each])
    first = int(worker["workerid"].removeprefix("gw")) % len(folders)
    config.args = [str(each) for each in folders[first:] + folders[:first]]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    if hasattr(config, "workerinput"):
        # The same seed shuffles the same list, whatever was collected first.
        items.sort(key=lambda item: item.nodeid)
    yield
    # Sorting keeps the random order within each place.
    items.sort(key=lambda item: rank(item.nodeid))


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> None:
    is_shared = fixturedef.scope in {"session", "package"}
    if is_shared and rank(f"{fixturedef.baseid}/") < len(TOGETHER):
        request.session.stash.setdefault(SHARED, []).append((fixturedef, request))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    place = rank(item.nodeid)
    if place == len(TOGETHER) or (nextitem is not None and rank(nextitem.nodeid) == place):
        return
    # pytest itself ends what belongs to a session when the session ends.
    shared = item.session.stash.get(SHARED, [])
    while shared:
        fixture, request = shared.pop()
        fixture.finish(request)  # type: ignore[arg-type]  # set up for this request


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByPlatform:
    config.option.loadscopereorder = False
    return ByPlatform(config, log)
