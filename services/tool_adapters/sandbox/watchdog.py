"""Watches a running sandbox for the limits the kernel does not keep for a whole group."""

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

import psutil

from failures import FailureKind, ToolFailure
from tool_adapters.sandbox.limits import MIB, Limits

POLL_S = 0.01
INSPECT_EVERY_S = 0.1


class Watchdog:
    """Waits for the end of one run and says which limit it passed, if any."""

    def __init__(
        self, process: subprocess.Popen[bytes], output: IO[bytes], workspace: Path, limits: Limits
    ) -> None:
        self._process = process
        self._output = output
        self._workspace = workspace
        self._limits = limits
        self._started = self._inspected = time.monotonic()

    async def wait(self) -> ToolFailure | None:
        """Returns when the process ended, or the failure of the limit it passed."""
        while self._process.poll() is None:
            await asyncio.sleep(POLL_S)
            failure = self._passed_limit()
            if failure:
                return failure
        return self._too_much_output() or self._too_much_disk()

    def _passed_limit(self) -> ToolFailure | None:
        now = time.monotonic()
        if now - self._inspected < INSPECT_EVERY_S:
            return None
        self._inspected = now
        return (
            self._too_much_time(now)
            or self._too_much_output()
            or self._too_much_memory()
            or self._too_much_disk()
        )

    def _too_much_time(self, now: float) -> ToolFailure | None:
        if now - self._started <= self._limits.wall_time_s:
            return None
        return ToolFailure(
            FailureKind.TIMEOUT,
            f"the code ran longer than {self._limits.wall_time_s:g} s; do less in one call",
        )

    def _too_much_output(self) -> ToolFailure | None:
        if os.fstat(self._output.fileno()).st_size <= self._limits.output_bytes:
            return None
        return ToolFailure(
            FailureKind.OUTPUT_TOO_LARGE,
            f"the code printed more than {self._limits.output_bytes} bytes; print a summary",
        )

    def _too_much_memory(self) -> ToolFailure | None:
        used = sum(_resident_bytes(each) for each in descendants(self._process.pid))
        return None if used <= self._limits.memory_bytes else out_of_memory(self._limits)

    def _too_much_disk(self) -> ToolFailure | None:
        entries = size = 0
        try:
            for status in _entries(self._workspace):
                entries += 1
                size += status.st_blocks * 512
                if entries > self._limits.workspace_entries or size > self._limits.workspace_bytes:
                    return self._disk_failure()
        except PermissionError:
            # A folder closed to us could hold anything.
            return self._disk_failure()
        return None

    def _disk_failure(self) -> ToolFailure:
        return ToolFailure(
            FailureKind.LIMIT_EXCEEDED,
            f"the workspace holds at most {self._limits.workspace_bytes // MIB} MiB in "
            f"{self._limits.workspace_entries} readable files; write less",
        )


def out_of_memory(limits: Limits) -> ToolFailure:
    """The failure of code that wants more memory than it may have."""
    return ToolFailure(
        FailureKind.LIMIT_EXCEEDED,
        f"the code needs more than {limits.memory_bytes // MIB} MiB of memory; work on less data",
    )


def descendants(pid: int) -> list[psutil.Process]:
    """The process and everything below it, whatever namespace it is in."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []


def _resident_bytes(process: psutil.Process) -> int:
    with suppress(psutil.NoSuchProcess):
        return int(process.memory_info().rss)
    return 0


def _entries(folder: Path) -> Iterator[os.stat_result]:
    """Every file and folder below, following no link; what vanishes meanwhile is left out."""
    with suppress(FileNotFoundError), os.scandir(folder) as found:
        for entry in found:
            with suppress(FileNotFoundError):
                yield entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    yield from _entries(Path(entry.path))
