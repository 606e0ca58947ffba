import asyncio
import os
import signal
from typing import Annotated

import psutil
import typer

from podium_cli.command import Session, command
from podium_cli.inputs import parse_seconds
from podium_kit.client.errors import UserError
from podium_operations.local.state import NotUp

POLL_INTERVAL_S = 0.1


app = typer.Typer(add_completion=False)


@command(app, "down")
async def down(
    session: Session,
    longest: Annotated[
        str, typer.Option("--timeout", help="Longest wait for the end, like 90s.")
    ] = "60s",
) -> None:
    """Stop the platform; episodes resume at the next `podium up`."""
    patience_s = parse_seconds(longest)
    state = session.target.state
    pid = state.holder()
    if pid is None:
        raise NotUp(state.path)
    os.kill(pid, signal.SIGTERM)
    try:
        async with asyncio.timeout(patience_s):
            while psutil.pid_exists(pid) and state.holder() == pid:  # noqa: ASYNC110  no event
                await asyncio.sleep(POLL_INTERVAL_S)
    except TimeoutError as error:
        raise UserError(
            f"podium (process {pid}) still stops after {patience_s:g} s",
            "wait, or kill that process: nothing outlives it",
        ) from error
    session.output.result({"stopped": pid}, "podium is down")
