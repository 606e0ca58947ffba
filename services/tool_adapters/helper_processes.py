"""Processes for work that holds the interpreter, or takes memory that nothing else bounds.

They run behind everything else, except for functions, and end with the call that they work for.
"""

import asyncio
import os
import resource
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress

from podium_kit.places import Places

# The first line of a process that takes one piece of work after the other.
READY = b"ready\n"
# Of the processor: the service answers others before.
NICENESS = 10


class Helpers:
    """One process for each piece of work; a tenant has `per_tenant` of the `count` at most."""

    def __init__(self, module: str, count: int, per_tenant: int, time_max_s: float) -> None:
        self._module = module
        self._places = Places(count, per_tenant)
        self._time_max_s = time_max_s

    async def run(self, tenant: str, data: bytes) -> bytes | None:
        """The module's output; None where the process ended otherwise, as without memory.

        Raises TimeoutError.
        """
        async with self._places.place(tenant):
            process = await start(self._module)
            try:
                async with asyncio.timeout(self._time_max_s):
                    written, _ = await process.communicate(data)
            finally:
                await end(process)
        return written if process.returncode == 0 else None


async def start(module: str, line_bytes_max: int = 2**16) -> Process:
    """With nothing of our environment but where Python's modules are."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", module),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        start_new_session=True,
        limit=line_bytes_max,
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


async def end(process: Process) -> None:
    """Kills it, with what it started, unless it has ended."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def restrict(memory_bytes: int) -> None:
    """For a helper itself: it yields to others, and has so many bytes of addresses."""
    os.nice(NICENESS)
    restrict_memory(memory_bytes)


def restrict_memory(memory_bytes: int) -> None:
    """For a helper itself: it has so many bytes of addresses."""
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
