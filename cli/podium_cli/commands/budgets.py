"""`podium budgets`: list, create, close."""

from typing import Annotated, Any

import typer

from podium.ledger.v1 import budget_service_pb2 as budgets_pb2
from podium_cli.command import Session, command
from podium_cli.errors import UsageError
from podium_cli.formats import enum_word, format_money
from podium_cli.gateway import segment
from podium_cli.inputs import parse_money
from podium_cli.listing import listing
from wire import money_from_proto, money_to_proto

app = typer.Typer(name="budgets", help="List, create, close.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(help="Budget id.", show_default=False)]


@command(app, "list")
async def list_budgets(session: Session) -> None:
    """List budgets and where their current windows stand."""
    async with session.gateway() as gateway:
        found = await gateway.all("/v1/budgets", budgets_pb2.ListBudgetsResponse)
    columns = ("budget", "covers", "window", "limit#", "spent#", "held#", "left#", "")
    session.output.result(found, listing(columns, [_row(each) for each in found.statuses]))


@command(app, "create")
async def create(
    session: Session,
    budget_id: Id,
    *,
    limit: Annotated[str, typer.Option(help="Hard limit, like 5 or '5 EUR'.")],
    scope: Annotated[
        str, typer.Option(help="tenant, team, user, agent, episode or named.")
    ] = "tenant",
    scope_id: Annotated[str, typer.Option(help="The team, user, agent or episode.")] = "",
    window: Annotated[str, typer.Option(help="total, day, week or month.")] = "total",
    time_zone: Annotated[str, typer.Option(help="Of calendar windows, like Europe/Berlin.")] = "",
    alert_at: Annotated[
        list[str] | None, typer.Option(help="Soft limit that raises an alert; repeatable.")
    ] = None,
) -> None:
    """Create a budget; a call that would pass its limit is refused."""
    budget = budgets_pb2.Budget(
        id=budget_id,
        scope=_value(budgets_pb2.BudgetScope, "BUDGET_SCOPE_", scope),
        scope_id=scope_id,
        window=_value(budgets_pb2.BudgetWindow, "BUDGET_WINDOW_", window),
        time_zone=time_zone,
        hard_limit=money_to_proto(parse_money(limit)),
        soft_limits=[money_to_proto(parse_money(each)) for each in alert_at or []],
    )
    async with session.gateway() as gateway:
        reply = await gateway.post(
            "/v1/budgets",
            budgets_pb2.CreateBudgetRequest(budget=budget),
            budgets_pb2.CreateBudgetResponse,
        )
    session.output.result(reply, f"budget {reply.budget.id} holds")


@command(app, "close")
async def close(session: Session, budget_id: Id) -> None:
    """End a budget: it decides no further call."""
    async with session.gateway() as gateway:
        path = f"/v1/budgets/{segment(budget_id)}/close"
        reply = await gateway.post(path, {}, budgets_pb2.CloseBudgetResponse)
    session.output.result(reply, f"budget {reply.budget.id} is closed")


def _value(enum: Any, prefix: str, word: str) -> Any:
    known = {enum_word(name, prefix): number for name, number in enum.items() if number}
    if word not in known:
        what = prefix.lower().replace("_", " ").strip()
        raise UsageError(f"there is no {what} {word!r}", f"use one of {', '.join(known)}")
    return known[word]


def _row(status: budgets_pb2.BudgetStatus) -> tuple[str, ...]:
    budget = status.budget
    scope = enum_word(budgets_pb2.BudgetScope.Name(budget.scope), "BUDGET_SCOPE_")
    return (
        budget.id,
        f"{scope} {budget.scope_id}".strip(),
        enum_word(budgets_pb2.BudgetWindow.Name(budget.window), "BUDGET_WINDOW_"),
        *(
            format_money(money_from_proto(each))
            for each in (budget.hard_limit, status.posted, status.held, status.remaining)
        ),
        "closed" if budget.HasField("close_time") else "",
    )
