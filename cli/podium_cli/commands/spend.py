from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from podium.common.v1 import usage_pb2
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb2
from podium_cli.audit.views import added, sums
from podium_cli.command import Session, command
from podium_cli.formats import format_money
from podium_cli.inputs import Since, month_bounds, parse_start, parse_time
from podium_cli.listing import Listing, listing
from podium_kit.client.errors import UsageError
from podium_kit.wire import enum_word

DIMENSIONS = {
    "day": ledger_pb2.SPEND_DIMENSION_DAY,
    "model": ledger_pb2.SPEND_DIMENSION_MODEL,
    "tool": ledger_pb2.SPEND_DIMENSION_TOOL,
    "episode": ledger_pb2.SPEND_DIMENSION_EPISODE,
    "user": ledger_pb2.SPEND_DIMENSION_USER,
    "team": ledger_pb2.SPEND_DIMENSION_TEAM,
    "price": ledger_pb2.SPEND_DIMENSION_PRICE_VERSION,
    "tenant": ledger_pb2.SPEND_DIMENSION_TENANT,
    "hour": ledger_pb2.SPEND_DIMENSION_HOUR,
    "week": ledger_pb2.SPEND_DIMENSION_WEEK,
}


app = typer.Typer(add_completion=False)


@command(app, "spend")
async def spend(
    session: Session,
    by: Annotated[
        str,
        typer.Option(help="Up to three of day, model, tool, episode, user, team, price; tenant."),
    ] = "tool",
    *,
    episode: Annotated[str, typer.Option(help="Only this episode.")] = "",
    since: Since = "",
    until: Annotated[str, typer.Option(help="Before this time.")] = "",
    month: Annotated[str, typer.Option(help="Only this month in UTC, like 2026-10.")] = "",
    all_tenants: Annotated[
        bool, typer.Option("--all-tenants", help="Every tenant; needs the platform's admin key.")
    ] = False,
) -> None:
    """Report spend from the ledger, most expensive first."""
    groups = [word.strip() for word in by.split(",") if word.strip()]
    if month and (since or until):
        raise UsageError("--month is a time span of its own", "leave out --since and --until")
    if month:
        since, until = (each.isoformat() for each in month_bounds(month))
    if "tenant" in groups and not all_tenants:
        raise UsageError("by tenant is a report over all of them", "add --all-tenants")
    async with session.gateway(admin=all_tenants) as gateway:
        report = await gateway.all(
            "/v1/spend",
            ledger_pb2.ReportSpendResponse,
            group_by=[_dimension(word) for word in groups],
            episode_id=episode,
            start_time=parse_start(since),
            end_time=parse_time(until),
            all_tenants=all_tenants or None,
            # Calls that post between two pages can move a group from one to the other.
            page_size=1000,
        )
    session.output.result(report, _view(groups, report.rows))
    if not report.rows:
        session.output.note("nothing was posted there")


def _dimension(word: str) -> str:
    if word not in DIMENSIONS:
        raise UsageError(f"spend is not grouped by {word!r}", f"use {', '.join(DIMENSIONS)}")
    return ledger_pb2.SpendDimension.Name(DIMENSIONS[word])


def _view(groups: list[str], rows: Sequence[ledger_pb2.SpendRow]) -> Listing:
    """A line per group and, below several, their sum: one per currency, never added up."""
    shown: list[tuple[str | Text, ...]] = [_row(row) for row in rows]
    if len(rows) > 1:
        shown.append(tuple(Text(cell, style="bold") for cell in _sum(groups, rows)))
    columns = (*groups, "cost#", "calls#", "unpriced#", "used")
    return listing(columns, shown, ("used",))


def _row(row: ledger_pb2.SpendRow) -> tuple[str, ...]:
    used = ", ".join(f"{each.amount} {_unit(each)}" for each in row.quantities)
    values = [value or "-" for value in row.values]
    counts = str(row.call_count), str(row.unpriced_call_count)
    return (*values, sums(row.amounts), *counts, used)


def _unit(quantity: usage_pb2.Quantity) -> str:
    word = enum_word(usage_pb2.UsageDimension.Name(quantity.dimension), PREFIX)
    return word if word not in COUNTED or quantity.amount == "1" else f"{word}s"


def _sum(groups: list[str], rows: Sequence[ledger_pb2.SpendRow]) -> tuple[str, ...]:
    totals = added(amount for row in rows for amount in row.amounts).values()
    cost = " + ".join(format_money(total) for total in totals)
    calls = sum(row.call_count for row in rows), sum(row.unpriced_call_count for row in rows)
    return ("sum", *[""] * (len(groups) - 1), cost or "-", *map(str, calls), "")


PREFIX = "USAGE_DIMENSION_"
COUNTED = {"call", "second", "gpu second", "document", "image"}
