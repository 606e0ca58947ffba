from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from podium.ledger.v1 import audit_service_pb2 as audit_pb2
from podium_kit.client.gateway import Gateway


class Bar:
    """One line on stderr that grows; without a terminal it stays silent."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def at(self, done: int, total: int, text: str | None = None) -> None:
        self._progress.update(self._task, completed=done, total=total or None, description=text)


@contextmanager
def progress_bar(console: Console, text: str) -> Iterator[Bar]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    disable = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=disable) as progress:
        yield Bar(progress, progress.add_task(text, total=None))


async def verification_steps(
    gateway: Gateway, **asked: object
) -> AsyncIterator[audit_pb2.VerifyLedgerResponse]:
    token = ""
    while True:
        step = await gateway.get(
            "/v1/audit/verify", audit_pb2.VerifyLedgerResponse, **asked, page_token=token
        )
        yield step
        token = step.next_page_token
        if not token:
            return
