from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
import uuid_utils
from google.protobuf.timestamp_pb2 import Timestamp

from podium.common.v1 import money_pb2
from podium.ledger.v1 import budget_service_pb2 as budgets_pb2
from podium_cli.command import Session, command
from podium_cli.formats import format_money, format_time
from podium_cli.inputs import parse_enum, parse_money, parse_seconds, parse_share, parse_time
from podium_cli.listing import listing
from podium_cli.unmatched import warn_of_unknown_principal
from podium_kit.client.errors import UsageError
from podium_kit.client.gateway import segment
from podium_kit.wire import duration_to_proto, enum_word, money_from_proto, money_to_proto

app = typer.Typer(
    name="budgets", help="List, show, create, update, raise, close, alerts.", no_args_is_help=True
)

# Takes a limit or an end away.
NONE = "none"
Id = Annotated[str, typer.Argument(help="Budget id.", show_default=False)]
Tenant = Annotated[
    str,
    typer.Option(help="Another tenant, whose budgets begin with platform:; platform admins only."),
]


@command(app, "list")
async def list_budgets(
    session: Session,
    *,
    runs: Annotated[
        bool, typer.Option("--runs", help="The budgets of single runs as well.")
    ] = False,
    tenant: Tenant = "",
) -> None:
    """List budgets with the spending of their current windows."""
    async with session.gateway(admin=bool(tenant)) as gateway:
        found = await gateway.all(
            "/v1/budgets",
            budgets_pb2.ListBudgetsResponse,
            tenant=tenant,
            include_runs="true" if runs else "",
        )
    columns = ("budget", "covers", "window", "limit#", "spent#", "held#", "left#", "state")
    session.output.result(found, listing(columns, [_row(each) for each in found.statuses]))


@command(app, "show")
async def show(session: Session, budget_id: Id, *, tenant: Tenant = "") -> None:
    """Show a budget with the spending of its current window."""
    async with session.gateway(admin=bool(tenant)) as gateway:
        path = f"/v1/budgets/{segment(budget_id)}"
        status = (await gateway.get(path, budgets_pb2.GetBudgetResponse, tenant=tenant)).status
    session.output.result(status, listing(("", ""), _details(status)))


@command(app, "alerts")
async def alerts(
    session: Session,
    budget: Annotated[str, typer.Option(help="Only of this budget.")] = "",
    tenant: Tenant = "",
) -> None:
    """List the soft limits that were passed, newest first."""
    async with session.gateway(admin=bool(tenant)) as gateway:
        found = await gateway.all(
            "/v1/budget-alerts", budgets_pb2.ListAlertsResponse, budget_id=budget, tenant=tenant
        )
    columns = ("when", "budget", "window from", "passed#", "spent#", "limit#", "")
    rows = [
        (
            format_time(each.create_time),
            each.budget_id,
            format_time(each.window_start),
            _money(each.soft_limit) + (f", {_percent(each.share)}" if each.share else ""),
            _money(each.posted),
            _money(each.hard_limit),
            "published" if each.HasField("publish_time") else "",
        )
        for each in found.alerts
    ]
    session.output.result(found, listing(columns, rows))


@command(app, "create")
async def create(
    session: Session,
    budget_id: Id,
    *,
    amount: Annotated[str, typer.Option(help="Hard limit, like 5 or '5 EUR'; 0 blocks.")],
    scope: Annotated[
        str, typer.Option(help="tenant, team, user, agent, episode, key, tool, model or named.")
    ] = "tenant",
    scope_id: Annotated[str, typer.Option(help="The team, user, key id, tool or other.")] = "",
    window: Annotated[str, typer.Option(help="total, day, week, month or rolling.")] = "total",
    rolling: Annotated[str, typer.Option(help="Length of a rolling window, like 24h.")] = "",
    time_zone: Annotated[str, typer.Option(help="Of calendar windows, like Europe/Berlin.")] = "",
    alert_at: Annotated[
        list[str] | None,
        typer.Option(help="Soft limit that raises an alert, like 4 or 80%; repeatable."),
    ] = None,
    start: Annotated[str, typer.Option("--from", help="Start time; now when left out.")] = "",
    end: Annotated[str, typer.Option("--until", help="End time; none when left out.")] = "",
    tenant: Tenant = "",
) -> None:
    """Create a budget; a call that would pass its limit is rejected."""
    covers = parse_enum(scope, budgets_pb2.BudgetScope.DESCRIPTOR, "--scope")
    per = parse_enum(window, budgets_pb2.BudgetWindow.DESCRIPTOR, "--window")
    budget = budgets_pb2.Budget(
        id=budget_id,
        scope=budgets_pb2.BudgetScope.Value(covers),
        scope_id=scope_id,
        window=budgets_pb2.BudgetWindow.Value(per),
        time_zone=time_zone,
        hard_limit=money_to_proto(parse_money(amount, zero_allowed=True)),
    )
    _alert_at(budget, alert_at or [])
    if rolling:
        budget.rolling_length.CopyFrom(duration_to_proto(parse_seconds(rolling)))
    for field, text in (("start_time", start), ("end_time", end)):
        if moment := parse_time(text):
            getattr(budget, field).FromJsonString(moment)
    async with session.gateway(admin=bool(tenant)) as gateway:
        reply = await gateway.post(
            "/v1/budgets",
            budgets_pb2.CreateBudgetRequest(budget=budget, tenant=tenant),
            budgets_pb2.CreateBudgetResponse,
        )
        if scope in ("team", "user") and not tenant:
            await warn_of_unknown_principal(gateway, session.output, scope, scope_id)
    session.output.result(reply, f"budget {reply.budget.id} is in force")


@command(app, "update")
async def update(
    session: Session,
    budget_id: Id,
    *,
    amount: Annotated[str, typer.Option(help="New hard limit, like 5 or '5 EUR'.")] = "",
    alert_at: Annotated[
        list[str] | None,
        typer.Option(help="Soft limit in place of all before; repeatable, 'none' for none."),
    ] = None,
    end: Annotated[str, typer.Option("--until", help="End time; 'none' for no end.")] = "",
    version: Annotated[
        int, typer.Option(help="Only if it still has this version, as `show` prints it.")
    ] = 0,
    tenant: Tenant = "",
) -> None:
    """Change limits or the end of a budget; what was spent stays counted."""
    request = budgets_pb2.UpdateBudgetRequest(id=budget_id, version=version, tenant=tenant)
    if amount:
        request.update_mask.paths.append("hard_limit")
        request.hard_limit.CopyFrom(money_to_proto(parse_money(amount, zero_allowed=True)))
    if alert_at:
        request.update_mask.paths.extend(("soft_limits", "soft_limit_shares"))
        _alert_at(request, [] if alert_at == [NONE] else alert_at)
    if end:
        request.update_mask.paths.append("end_time")
        if end != NONE and (moment := parse_time(end)):
            request.end_time.FromJsonString(moment)
    if not request.update_mask.paths:
        raise UsageError("nothing changes", "give --amount, --alert-at or --until")
    async with session.gateway(admin=bool(tenant)) as gateway:
        path = f"/v1/budgets/{segment(budget_id)}"
        reply = await gateway.patch(path, request, budgets_pb2.UpdateBudgetResponse)
    changed = reply.budget
    session.output.result(reply, f"budget {budget_id} is in force at version {changed.version}")


@command(app, "raise")
async def raise_(
    session: Session,
    budget_id: Id,
    amount: Annotated[
        str, typer.Argument(help="What is added, like 20 or 20USD; 0 ends it.", show_default=False)
    ],
    *,
    reason: Annotated[str, typer.Option(help="Why, for those who read the change log.")],
    length: Annotated[str, typer.Option("--for", help="How long, like 2d; at most 31d.")] = "",
    end: Annotated[str, typer.Option("--until", help="End time, in place of --for.")] = "",
    raise_id: Annotated[
        str, typer.Option("--id", help="Its UUIDv7, to send the same raise again.")
    ] = "",
    tenant: Tenant = "",
) -> None:
    """Raise the limit of a budget for a while; it ends by itself."""
    added = parse_money(amount, zero_allowed=True)
    if bool(length) + bool(end) != bool(added.amount):
        raise UsageError(
            "an amount above 0 has one end, and 0 has none", "give --for or --until, with 0 neither"
        )
    request = budgets_pb2.RaiseBudgetRequest(
        id=budget_id,
        raise_id=raise_id or str(uuid_utils.uuid7()),
        amount=money_to_proto(added),
        reason=reason,
        tenant=tenant,
    )
    if length:
        request.end_time.FromDatetime(datetime.now(UTC) + timedelta(seconds=parse_seconds(length)))
    elif moment := parse_time(end):
        request.end_time.FromJsonString(moment)
    async with session.gateway(admin=bool(tenant)) as gateway:
        path = f"/v1/budgets/{segment(budget_id)}/raise"
        reply = await gateway.post(path, request, budgets_pb2.RaiseBudgetResponse)
    raised = _raised(reply.budget)
    outcome = f"is raised by {raised}" if raised else "is not raised any more"
    session.output.result(reply, f"budget {budget_id} {outcome}")


@command(app, "close")
async def close(session: Session, budget_id: Id, *, tenant: Tenant = "") -> None:
    """End a budget; it limits no further call."""
    async with session.gateway(admin=bool(tenant)) as gateway:
        path = f"/v1/budgets/{segment(budget_id)}/close"
        reply = await gateway.post(path, {"tenant": tenant}, budgets_pb2.CloseBudgetResponse)
    session.output.result(reply, f"budget {reply.budget.id} is closed")


def _row(status: budgets_pb2.BudgetStatus) -> tuple[str, ...]:
    budget = status.budget
    scope = enum_word(budgets_pb2.BudgetScope.Name(budget.scope), "BUDGET_SCOPE_")
    return (
        budget.id,
        f"{scope} {budget.scope_id}".strip(),
        enum_word(budgets_pb2.BudgetWindow.Name(budget.window), "BUDGET_WINDOW_"),
        *map(_money, (status.limit, status.posted, status.held, status.remaining)),
        "closed" if budget.HasField("close_time") else "raised" if _raised(budget) else "",
    )


def _details(status: budgets_pb2.BudgetStatus) -> list[tuple[str, str]]:
    budget = status.budget
    _, covers, window, limit, spent, held, left, state = _row(status)
    alerts = [*map(_money, budget.soft_limits), *map(_percent, budget.soft_limit_shares)]
    details = [
        ("budget", budget.id),
        ("covers", covers),
        ("window", f"{window} in {budget.time_zone}, since {format_time(status.window_start)}"),
        ("limit", limit),
        ("raised by", _raised(budget)),
        ("alerts at", ", ".join(alerts)),
        ("spent", spent),
        ("held", held),
        ("left", left),
        ("from", format_time(_start(budget))),
        ("until", format_time(budget.end_time)),
        ("version", str(budget.version)),
        ("", "closed" if state == "closed" else ""),
    ]
    return [(name, text) for name, text in details if text]


def _alert_at(
    target: budgets_pb2.Budget | budgets_pb2.UpdateBudgetRequest, limits: Sequence[str]
) -> None:
    shares = sorted(parse_share(each) for each in limits if each.endswith("%"))
    target.soft_limit_shares.extend(map(float, shares))
    amounts = (parse_money(each) for each in limits if not each.endswith("%"))
    target.soft_limits.extend(map(money_to_proto, amounts))


def _raised(budget: budgets_pb2.Budget) -> str:
    if not budget.HasField("raised"):
        return ""
    raised = budget.raised
    until = format_time(raised.end_time)
    return f"{_money(raised.amount)} until {until}, by {raised.raised_by}: {raised.reason}"


def _percent(share: float) -> str:
    return f"{100 * share:.4g}%"


def _start(budget: budgets_pb2.Budget) -> Timestamp:
    return budget.start_time if budget.HasField("start_time") else budget.create_time


def _money(message: money_pb2.Money) -> str:
    return format_money(money_from_proto(message))
