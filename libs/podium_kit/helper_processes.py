"""Processes for work that holds the interpreter, or takes memory that nothing else bounds.

They run behind everything else, except for functions, and end with the call that they work for.
"""

import asyncio
import os
import resource
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Collection, Sequence
from contextlib import suppress

from podium_kit.limits.concurrency import FairSemaphore

# The first line of a process that takes one piece of work after the other.
READY = b"ready\n"
# Of the processor: the service answers others before.
NICENESS = 10
PIECE_BYTES = 2**16


class Helpers:
    """One process for each piece of work; a tenant has `per_tenant` of the `count` at most."""

    def __init__(
        self, module: str, count: int, per_tenant: int, time_max_s: float, output_bytes_max: int
    ) -> None:
        self._module = module
        self.count = count
        self._places = FairSemaphore(count, per_tenant)
        self._time_max_s = time_max_s
        self._output_bytes_max = output_bytes_max

    async def run(self, tenant: str, data: bytes, *arguments: str) -> bytes | None:
        """The module's output; None where it fails, as without memory, or where it is too large.

        Raises TimeoutError.
        """
        async with self._places.slot(tenant):
            process = await start(self._module, arguments=arguments)
            try:
                async with asyncio.timeout(self._time_max_s):
                    return await exchange(process, data, self._output_bytes_max)
            finally:
                await end(process)


async def exchange(process: Process, data: bytes, output_bytes_max: int) -> bytes | None:
    """The process's output for the input; None where it fails, or writes more than that."""
    assert process.stdin is not None and process.stdout is not None
    feeding = asyncio.create_task(_feed(process.stdin, data))
    try:
        written = bytearray()
        while piece := await process.stdout.read(PIECE_BYTES):
            written += piece
            if len(written) > output_bytes_max:
                return None
        return bytes(written) if await process.wait() == 0 else None
    finally:
        feeding.cancel()


async def _feed(stdin: asyncio.StreamWriter, data: bytes) -> None:
    # One that has what it needs, or ends, reads no more.
    with suppress(ConnectionError):
        stdin.write(data)
        await stdin.drain()
        stdin.close()


async def start(
    module: str,
    line_bytes_max: int = 2**16,
    *,
    arguments: Sequence[str] = (),
    files: Collection[int] = (),
) -> Process:
    """Starts a module with an environment of Python's path alone, and no open files."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", module, *arguments),
        pass_fds=files,
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        start_new_session=True,
        limit=line_bytes_max,
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


async def end(process: Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def restrict(memory_bytes: int) -> None:
    os.nice(NICENESS)
    restrict_memory(memory_bytes)


def restrict_memory(memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
