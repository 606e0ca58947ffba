import asyncio
import json
import logging
import tempfile
from asyncio.subprocess import Process
from contextlib import suppress
from pathlib import Path
from typing import IO, Self

from podium_kit.limits.time_limit import time_limit
from tool_adapters.sandbox.killing import kill_all
from tool_adapters.sandbox.launch import code_world, launch
from tool_adapters.sandbox.limits import Sizes
from tool_adapters.sandbox.report import BrokenReport, RunReport, read_report
from tool_adapters.sandbox.sandbox import Job, SandboxBroken

log = logging.getLogger(__name__)

START_TIMEOUT_S = 30.0
# The supervisor's clock comes first; it needs this long to end, measure and pack at most.
REPORT_TIMEOUT_S = 10.0
STATUS_TIMEOUT_S = 1.0
POLL_S = 0.1
ERROR_BYTES_MAX = 2000


class Session:
    """A sandbox that no code has run in yet, and that runs one job."""

    def __init__(self, process: Process, errors: IO[bytes], sizes: Sizes) -> None:
        self._process = process
        self._errors = errors
        self.sizes = sizes
        self.complaint = ""

    @classmethod
    async def start(cls, bwrap: Path, sizes: Sizes, fonts: Path | None) -> Self:
        errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `end`)
        launching = asyncio.create_task(launch(bwrap, code_world(sizes, fonts), errors))
        try:
            # Cancelled half-way, asyncio kills the launcher alone and waits for what it forked.
            session = cls(await asyncio.shield(launching), errors, sizes)
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.create_task(cls._end_launched(launching, errors, sizes)))
            raise
        try:
            async with time_limit(START_TIMEOUT_S):
                ready = await session._first_line()
        except TimeoutError as error:
            await session.end()
            raise SandboxBroken("the sandbox did not start in time") from error
        except BaseException:
            await session.end()
            raise
        if ready != b"ready\n":
            status = await session._status()
            await session.end()
            ended = f"the sandbox did not start: its launcher ended with status {status}"
            raise SandboxBroken(session.complaint or ended)
        return session

    @classmethod
    async def _end_launched(
        cls, launching: asyncio.Task[Process], errors: IO[bytes], sizes: Sizes
    ) -> None:
        await cls(await launching, errors, sizes).end()

    @property
    def alive(self) -> bool:
        # The pipe of a process that is killed may be closed before its status is known.
        return self._process.returncode is None and not self._stdin.is_closing()

    async def run(self, job: Job) -> RunReport:
        """Raises SandboxBroken; whatever happens, nothing is left running."""
        try:
            await self._send(job)
            async with time_limit(job.limits.wall_time_s + REPORT_TIMEOUT_S):
                return await read_report(self._stdout, job.limits)
        except (BrokenReport, TimeoutError, ConnectionError) as error:
            await self.end()
            log.error("a sandbox failed: %s", self.complaint or type(error).__name__)
            raise SandboxBroken(str(error) or "the sandbox did not report in time") from error
        finally:
            await self.end()

    async def end(self) -> None:
        await asyncio.shield(asyncio.create_task(self._end()))

    async def _first_line(self) -> bytes:
        """Reads the first line; empty where the launcher ends before.

        Bubblewrap that is killed between two of its steps leaves a process that waits for it
        without end, and holds the output open.
        """
        reading = asyncio.ensure_future(self._stdout.readline())
        try:
            while self._process.returncode is None and not reading.done():
                await asyncio.wait({reading}, timeout=POLL_S)
            return reading.result() if reading.done() else b""
        finally:
            reading.cancel()

    async def _status(self) -> int | None:
        """Returns the status of a launcher that ended by itself, which may have written nothing."""
        with suppress(TimeoutError):
            async with asyncio.timeout(STATUS_TIMEOUT_S):
                return await self._process.wait()
        return None

    async def _end(self) -> None:
        if self._errors.closed:
            return
        # What runs in there ends with it, also where the launcher is dead and cannot be asked.
        if not self._stdin.is_closing():
            self._stdin.transport.abort()
        await kill_all(self._process)
        await self._process.wait()
        self.complaint = _beginning(self._errors)
        self._errors.close()

    async def _send(self, job: Job) -> None:
        code = job.code.encode(errors="replace")
        header = {
            "code_bytes": len(code),
            "state_bytes": len(job.state),
            "stateful": job.stateful,
            "bounds": job.limits.bounds(),
            "rlimits": job.limits.resource_limits(),
        }
        if self._stdin.is_closing():
            raise BrokenPipeError("the sandbox ended before it ran anything")
        self._stdin.writelines((json.dumps(header).encode(), b"\n", code, job.state))
        await self._stdin.drain()

    @property
    def _stdin(self) -> asyncio.StreamWriter:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def _stdout(self) -> asyncio.StreamReader:
        assert self._process.stdout is not None
        return self._process.stdout


def _beginning(errors: IO[bytes]) -> str:
    errors.seek(0)
    return errors.read(ERROR_BYTES_MAX).decode(errors="replace").strip()
