"""`podium audit close`: no cost can be posted into the past any more."""

from typing import Annotated

import typer
from rich.text import Text

from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb2
from podium_cli.command import Session, command
from podium_cli.commands.audit.audit import app
from podium_cli.inputs import month_bounds
from podium_kit.wire import timestamp_to_proto


@command(app, "close")
async def close(
    session: Session,
    month: Annotated[str, typer.Argument(help="Last month to close, in UTC, like 2026-10.")],
) -> None:
    """Close the books of a month and of all before it; they cannot be opened again.

    What occurred in them is rejected from then on; corrections of it occur in the open period.
    The same month again changes nothing.
    """
    _, end = month_bounds(month)
    request = ledger_pb2.ClosePeriodRequest(key=f"close/{month}", end_time=timestamp_to_proto(end))
    async with session.gateway() as gateway:
        reply = await gateway.post("/v1/audit/close", request, ledger_pb2.ClosePeriodResponse)
    closed = f"the books before {end:%Y-%m-%d} (UTC) are closed by entry {reply.entry.sequence}"
    session.output.result(reply, Text(closed))
