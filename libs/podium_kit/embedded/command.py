import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from podium_kit.embedded.errors import EmbeddedError

TAIL_LINES = 15
# What would make another Python environment load our packages.
OWN_PYTHON_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTHONSAFEPATH")


class CommandFailed(EmbeddedError):
    """The command ended with an error; `tail` holds its last output lines."""

    def __init__(self, purpose: str, status: int, tail: str) -> None:
        super().__init__(f"could not {purpose} (exit status {status}):\n{tail}")
        self.status = status
        self.tail = tail


def foreign_environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in OWN_PYTHON_VARIABLES}


async def run_command(
    purpose: str, argv: Sequence[str | Path], on_line: Callable[[str], None]
) -> None:
    """Run a command; cancelling kills it. Raises CommandFailed."""
    process = await asyncio.create_subprocess_exec(
        *[str(argument) for argument in argv],
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=foreign_environment(),
    )
    try:
        tail = await _follow(process, on_line)
        status = await process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    if status != 0:
        raise CommandFailed(purpose, status, "\n".join(tail))


async def _follow(
    process: asyncio.subprocess.Process, on_line: Callable[[str], None]
) -> deque[str]:
    assert process.stdout is not None
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    async for raw in process.stdout:
        line = raw.decode(errors="replace").rstrip()
        tail.append(line)
        on_line(line)
    return tail
