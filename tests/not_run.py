"""Pytest plugin: a whole run ends with what it left out, why, and the command that runs it."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from browser import machine
from chart import crd_schemas
from integration.focus import validator
from sdks import typescript_client

LEFT_OUT = {
    "chaos": "they kill or restart servers and run alone: make test-all",
    "browser": "they open the console in a browser: make console-test",
    "vllm": "they start vLLM, which takes minutes: make test-all",
    "leaderboards": "they install published benchmarks: make test-all",
    "training": "they train and measure models, which takes minutes: make test-all",
}
IMAGES = "tests/chart/slow: it builds images and runs them, as root with buildah: make chart-slow"
ALERTS = "tests/prometheus: it fires every alert with Debian's prometheus: make prometheus"
COUNTS = "not_run"


class NotRun:
    """Counts deselected tests by marker; under xdist the workers count and the controller asks."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._counts: Counter[str] = Counter()

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self._counts.update(
            marker for item in items for marker in LEFT_OUT if item.get_closest_marker(marker)
        )

    def pytest_sessionfinish(self) -> None:
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput[COUNTS] = dict(self._counts)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        # Every worker collects everything.
        self._counts |= Counter(getattr(node, "workeroutput", {}).get(COUNTS, {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
            return
        lines = [f"{self._counts[each]} {each} tests: {LEFT_OUT[each]}" for each in self._counts]
        if self._counts:
            lines += [IMAGES, ALERTS]
        if not machine.available():
            lines.append(machine.MISSING)
        if not crd_schemas.available():
            lines.append(crd_schemas.MISSING)
        if not typescript_client.available():
            lines.append(typescript_client.MISSING)
        if validator.python_3_12() is None:
            lines.append(validator.MISSING)
        if lines:
            terminalreporter.section("not run")
            terminalreporter.write_line("\n".join(lines))


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(NotRun(config))
