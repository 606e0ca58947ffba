import asyncio
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import psutil
import typer
from rich.text import Text

from podium_cli.command import Session, command
from podium_cli.listing import listing
from podium_kit.client.errors import UserError
from podium_kit.text import format_bytes
from podium_operations.local.state import NotUp, StateFolder
from podium_operations.local.supervision import answers, background_works


@dataclass(frozen=True)
class ProcessStatus:
    name: str
    state: str
    pid: int
    port: int | None
    memory_bytes: int
    log: str


app = typer.Typer(add_completion=False)


@command(app, "status")
async def status(session: Session) -> None:
    """Show processes, health, ports and memory; exit status 1 when something is unwell."""
    state = session.target.state
    connection = state.read_connection()
    processes = await asyncio.gather(
        *(_status(name, about) for name, about in _known(state).items())
    )
    rows = [
        (
            each.name,
            Text(each.state, "green" if each.state == "ready" else "red"),
            str(each.port or ""),
            str(each.pid),
            format_bytes(each.memory_bytes),
        )
        for each in processes
    ]
    table = listing(("process", "state", "port#", "pid#", "memory#"), rows)
    values = {"url": connection.gateway_url, "processes": [asdict(each) for each in processes]}
    session.output.result(values, table)
    unwell = [each for each in processes if each.state != "ready"]
    if unwell:
        states = ", ".join(f"{each.name} ({each.state})" for each in unwell)
        raise UserError(f"not well: {states}", f"see {unwell[0].log}")


def memory_bytes(process: psutil.Process) -> int:
    """Returns the memory of a process with its children. Raises NoSuchProcess."""
    total = int(process.memory_info().rss)
    for child in process.children(recursive=True):
        # One that ends meanwhile, as sandboxes do, says nothing of its parent.
        with suppress(psutil.NoSuchProcess):
            total += child.memory_info().rss
    return total


def _known(state: StateFolder) -> dict[str, dict[str, Any]]:
    try:
        known: dict[str, dict[str, Any]] = json.loads(state.processes_file.read_text())
    except (OSError, ValueError) as error:
        raise NotUp(state.path) from error
    return known


async def _status(name: str, about: dict[str, Any]) -> ProcessStatus:
    pid, port = int(about["pid"]), about["port"]
    try:
        memory = memory_bytes(psutil.Process(pid))
        state = await _state(name, port)
    except psutil.NoSuchProcess:
        memory, state = 0, "dead"
    return ProcessStatus(name.replace("_", "-"), state, pid, port, memory, about["log"])


async def _state(name: str, port: int | None) -> str:
    if not await answers(name, port):
        return "not answering"
    return "ready" if await background_works(name, port) else "a background task fails"
