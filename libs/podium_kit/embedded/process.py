import asyncio
import contextlib
import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import psutil

from podium_kit.embedded.errors import StartupFailed

POLL_INTERVAL_S = 0.05
LOG_TAIL_LINES = 15
LOG_BYTES_MAX = 16 * 1024 * 1024
PR_SET_PDEATHSIG = 1

ReadyCheck = Callable[[], Awaitable[bool]]


class ManagedProcess:
    """A server process with its log file, in a session of its own.

    Start it from a thread that lives as long as the server should: Linux sends
    `orphan_signal` when the *thread* that forked the child ends, which is how nothing
    survives a killed parent. All methods may be called from any event loop.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        log_path: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        user: str | None = None,
        groups: Sequence[int] = (),
        stop_signal: signal.Signals = signal.SIGTERM,
        orphan_signal: signal.Signals = signal.SIGKILL,
    ) -> None:
        self.name = name
        self.log_path = log_path
        self.argv = [str(argument) for argument in argv]
        self._env = env
        self._cwd = cwd
        self._user = user
        self._groups = groups
        self._stop_signal = stop_signal
        self._orphan_signal = orphan_signal
        self._child: subprocess.Popen[bytes] | None = None
        self._log_start_bytes = 0

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    @property
    def returncode(self) -> int | None:
        """The exit status; None while it runs or before it was started."""
        return self._child.poll() if self._child else None

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def start(self) -> None:
        """Start the process; a second call while it runs does nothing.

        Raises StartupFailed when the program cannot be executed at all.
        """
        if self.running:
            return
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._log_start_bytes = log.tell()
            try:
                self._child = self._spawn(log.fileno())
            except OSError as error:
                raise StartupFailed(self.name, str(error), self.log_path) from error

    def _spawn(self, log_fd: int) -> subprocess.Popen[bytes]:
        account = _account(self._user)
        return subprocess.Popen(  # noqa: S603 - callers name their own programs
            self.argv,
            stdin=subprocess.DEVNULL,
            stdout=log_fd,
            stderr=subprocess.STDOUT,
            env=self._env,
            cwd=self._cwd,
            start_new_session=True,
            user=account[0] if account else None,
            group=account[1] if account else None,
            extra_groups=list(self._groups) if account else None,
            preexec_fn=die_with_parent(self._orphan_signal),  # noqa: PLW1509 - see the hook
        )

    async def wait_ready(self, check: ReadyCheck, timeout_s: float) -> None:
        """Return once `check` answers true.

        Raises StartupFailed, leaving nothing running, when the process dies first or
        `timeout_s` passes.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            if not self.running:
                raise self._startup_failed(f"it exited with status {self.returncode}")
            if await check():
                return
            if time.monotonic() > deadline:
                await self.kill()
                raise self._startup_failed(f"it was not ready after {timeout_s:g} s")
            await asyncio.sleep(POLL_INTERVAL_S)

    def _startup_failed(self, cause: str) -> StartupFailed:
        tail = self.log_tail()
        reason = f"{cause}; its last log lines:\n{tail}" if tail else f"{cause}, silently"
        return StartupFailed(self.name, reason, self.log_path)

    def log_tail(self, lines: int = LOG_TAIL_LINES) -> str:
        with self.log_path.open("rb") as log:
            log.seek(self._log_start_bytes)
            written = log.read().decode(errors="replace").rstrip().splitlines()
        return "\n".join(written[-lines:])

    def rotate_log(self, bytes_max: int = LOG_BYTES_MAX) -> None:
        """Copies a log of more bytes to NAME.1, over the one before, and empties it.

        The process appends to the same file, so it need not open another. Raises OSError.
        """
        if not self.log_path.exists() or self.log_path.stat().st_size <= bytes_max:
            return
        shutil.copyfile(self.log_path, self.log_path.with_name(f"{self.log_path.name}.1"))
        os.truncate(self.log_path, 0)
        self._log_start_bytes = 0

    async def wait(self) -> int:
        # This child, although a supervisor may start the next one meanwhile.
        child = self._child
        if child is None:
            raise RuntimeError(f"{self.name} was never started")
        # Polled: a child watcher would tie the process to one event loop.
        while (status := child.poll()) is None:  # noqa: ASYNC110
            await asyncio.sleep(POLL_INTERVAL_S)
        return status

    async def terminate(self, grace_s: float = 10.0) -> None:
        """Ask the process to stop, then kill what is left of its group after `grace_s`."""
        if self._child is None:
            return
        family = self._family()
        if self.running:
            self._child.send_signal(self._stop_signal)
            await self._wait_up_to(grace_s)
        await self._kill_all(family)

    async def kill(self) -> None:
        """End the process and everything it started, at once and uncleanly."""
        if self._child is not None:
            await self._kill_all(self._family())

    async def restart(self, grace_s: float = 10.0) -> None:
        await self.terminate(grace_s)
        self.start()

    def _family(self) -> list[psutil.Process]:
        """Descendants by parentage: some (PostgreSQL's) leave the process group."""
        try:
            return psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    async def _kill_all(self, family: list[psutil.Process]) -> None:
        assert self._child is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        await self.wait()

    async def _wait_up_to(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.wait(), seconds)


def _account(user: str | None) -> tuple[int, int] | None:
    if user is None:
        return None
    entry = pwd.getpwnam(user)
    return entry.pw_uid, entry.pw_gid


def die_with_parent(orphan_signal: signal.Signals) -> Callable[[], None] | None:
    """The hook the child runs before exec; only Linux can do this."""
    if sys.platform != "linux":
        return None
    # Loaded before the fork: a forked child must not take the dynamic loader's lock.
    prctl = ctypes.CDLL(None).prctl
    parent_pid = os.getpid()

    def hook() -> None:
        prctl(PR_SET_PDEATHSIG, int(orphan_signal))
        if os.getppid() != parent_pid:
            os._exit(1)

    return hook
