"""`podium up --detach`: the same command in a session of its own, followed until it is ready."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape

from podium_cli.output import Output
from podium_kit.client.errors import UserError
from podium_operations.local.state import Connection, NotUp, StateFolder

POLL_INTERVAL_S = 0.1
ENGINE_KEY_VARIABLE = "OPENAI_API_KEY"


class BackgroundStartFailed(UserError):
    def __init__(self, log: Path, last_lines: list[str]) -> None:
        # The last lines are its own error, as the command prints it.
        cause = "\n".join(last_lines).removeprefix("error: ").replace("\n fix: ", "; ")
        super().__init__(cause or "the background process ended", f"see {log}")


async def start_in_background(
    state: StateFolder, arguments: Sequence[str], engine_key: str, output: Output
) -> Connection:
    """Starts `podium up` with the arguments and returns once the platform is ready.

    Raises BackgroundStartFailed, StateFolderUnusable, AlreadyUp.
    """
    # Acquire and release: a held lock is reported here, not in the background's log.
    state.acquire().release()
    log = state.logs / "up.log"
    child = _spawn(["up", *arguments], engine_key, log)
    try:
        return await _ready(child, state, log, output)
    except asyncio.CancelledError:
        child.terminate()
        await asyncio.to_thread(child.wait)
        raise


def _spawn(arguments: Sequence[str], engine_key: str, log: Path) -> "subprocess.Popen[bytes]":
    with log.open("wb") as sink:
        return subprocess.Popen(  # noqa: S603  our own command again
            [sys.executable, "-P", "-m", "podium_cli", *arguments],
            stdin=subprocess.DEVNULL,
            # Its own announcement; ours names the folder's log and `podium down`.
            stdout=subprocess.DEVNULL,
            stderr=sink,
            start_new_session=True,
            # Everybody can read a command line.
            env={**os.environ, ENGINE_KEY_VARIABLE: engine_key},
        )


async def _ready(
    child: "subprocess.Popen[bytes]", state: StateFolder, log: Path, output: Output
) -> Connection:
    shown = 0
    while True:
        lines = (await asyncio.to_thread(log.read_text, errors="replace")).splitlines()
        for line in lines[shown:]:
            output.note(escape(line))
        shown = len(lines)
        if child.poll() is not None:
            raise BackgroundStartFailed(log, lines[-2:])
        try:
            return state.read_connection()
        except NotUp:
            await asyncio.sleep(POLL_INTERVAL_S)
