import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

PR_SET_CHILD_SUBREAPER = 36
# A process that was just asked to stop may need this long on a busy machine.
STOP_TIMEOUT_S = 20.0
# Helpers that end with the test process.
HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver", "warm_programs.py")
REAP_INTERVAL_S = 1.0

Processes = Callable[[str], list[psutil.Process]]


def descendants() -> list[psutil.Process]:
    found = psutil.Process().children(recursive=True)
    return [each for each in found if runs(each) and not _is_helper(each)]


def runs(process: psutil.Process) -> bool:
    """False for an ended process, also while it is a zombie."""
    with suppress(psutil.NoSuchProcess):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def _is_helper(process: psutil.Process) -> bool:
    return any(helper in command_line(process) for helper in HELPERS)


def command_line(process: psutil.Process) -> str:
    """The program and its arguments; of a sandbox of another account the program alone."""
    with suppress(psutil.Error):
        return " ".join(process.cmdline()) or process.name()
    return "an ended process"


class ChildrenOfOurs:
    """The children that this process started itself, and an end for those it adopted.

    Python waits for what it started. Without a waiter an adopted child would stay a zombie,
    so a thread does what `init` does elsewhere.
    """

    def __init__(self) -> None:
        self.started: set[int] = set()
        start = subprocess.Popen.__init__

        def recorded(popen: Any, *arguments: Any, **options: Any) -> None:
            start(popen, *arguments, **options)
            self.started.add(popen.pid)

        subprocess.Popen.__init__ = recorded  # type: ignore[method-assign, assignment]
        threading.Thread(target=self._reap_adopted, daemon=True).start()

    def _reap_adopted(self) -> None:
        seen: set[int] = set()
        while True:
            time.sleep(REAP_INTERVAL_S)
            dead = _dead_children() - self.started
            # One that died while `Popen` still starts it is known the next time.
            for pid in dead & seen:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            seen = dead


def _dead_children() -> set[int]:
    dead = set()
    for children in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            for pid in children.read_text().split():
                if Path("/proc", pid, "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                    dead.add(int(pid))
    return dead


class ProcessOwner:
    """Knows which processes belong to fixtures that outlive the test."""

    def __init__(self) -> None:
        self._shared: dict[psutil.Process, str] = {}
        self._children = ChildrenOfOurs()
        self._started_before = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: "pytest.FixtureDef[Any]"
    ) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        before = set(descendants())
        try:
            return (yield)
        finally:
            started = set(descendants()) - before
            self._shared |= {process: command_line(process) for process in started}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        try:
            return (yield)
        finally:
            # Looking costs milliseconds, and most tests start nothing.
            started = len(self._children.started)
            if started > self._started_before or nextitem is None:
                self._started_before = started
                self._end_what_is_left(item, everything=nextitem is None)

    def _end_what_is_left(self, item: pytest.Item, *, everything: bool) -> None:
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while left := self._left(everything):
            if time.monotonic() > deadline:
                names = "\n  ".join(f"{each.pid} {command_line(each)}" for each in left)
                kill(left)
                pytest.fail(f"{item.nodeid} left running (killed now):\n  {names}", pytrace=False)
            time.sleep(0.02)

    def _left(self, everything: bool) -> list[psutil.Process]:
        if everything:
            return descendants()
        return [each for each in descendants() if not self._is_shared(each)]

    def _is_shared(self, process: psutil.Process) -> bool:
        with suppress(psutil.NoSuchProcess):
            # A supervisor starts what died again: the same command line is the same server.
            lines = set(self._shared.values())
            found: psutil.Process | None = process
            while found is not None and found.pid != os.getpid():
                if found in self._shared or command_line(found) in lines:
                    return True
                found = found.parent()
            return False
        return True

    def pytest_unconfigure(self) -> None:
        kill(descendants())


def kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


@pytest.fixture
def own_processes() -> Processes:
    """`own_processes(word)`: those of this test with the word in their command line."""
    before = set(descendants())

    def running(word: str) -> list[psutil.Process]:
        return [each for each in set(descendants()) - before if word in command_line(each)]

    return running


def pytest_configure(config: pytest.Config) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # `nohup make test &` ignores SIGINT, and child processes inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(ProcessOwner())
