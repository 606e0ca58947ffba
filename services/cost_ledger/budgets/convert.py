from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal

from cost_ledger.budgets.models import (
    Budget,
    BudgetAlert,
    BudgetChange,
    BudgetField,
    BudgetScope,
    BudgetStatus,
    BudgetWindow,
    CountedWindow,
)
from cost_ledger.budgets.raises import BudgetRaise
from cost_ledger.checks import check_text
from cost_ledger.errors import InvalidBudget
from podium.common.v1 import money_pb2
from podium.ledger.v1 import alert_pb2
from podium.ledger.v1 import budget_service_pb2 as pb
from podium_kit.money import Money
from podium_kit.rpc.pages import InvalidPageToken, decode_page_token, encode_page_token
from podium_kit.stream import StreamRecord
from podium_kit.wire import (
    duration_from_proto,
    duration_to_proto,
    money_from_proto,
    money_to_proto,
    optional_money_from_proto,
    optional_time,
    timestamp_to_proto,
)

SCOPE_TO_WIRE = {scope: pb.BudgetScope.Value(f"BUDGET_SCOPE_{scope.name}") for scope in BudgetScope}
SCOPE_FROM_WIRE = {number: scope for scope, number in SCOPE_TO_WIRE.items()}
FIELDS = tuple(BudgetField)
# Each is compared with every cost that the budget counts, in the transaction that posts it.
SOFT_LIMITS_MAX = 50
WINDOW_TO_WIRE = {
    window: pb.BudgetWindow.Value(f"BUDGET_WINDOW_{window.name}") for window in BudgetWindow
}
WINDOW_FROM_WIRE = {number: window for window, number in WINDOW_TO_WIRE.items()}


def budget_from_proto(message: pb.Budget, tenant: str) -> Budget:
    if message.scope not in SCOPE_FROM_WIRE:
        raise InvalidBudget("scope is unset; say whose calls the budget covers")
    if message.window not in WINDOW_FROM_WIRE:
        raise InvalidBudget("window is unset; say when the budget starts anew")
    # What a call names is no longer than this: the budget would cover none.
    check_text("scope_id", message.scope_id)
    return Budget(
        tenant=tenant,
        id=message.id,
        scope=SCOPE_FROM_WIRE[message.scope],
        scope_id=message.scope_id,
        window=WINDOW_FROM_WIRE[message.window],
        rolling_length_s=duration_from_proto(message.rolling_length),
        time_zone=message.time_zone or "UTC",
        hard_limit=money_from_proto(message.hard_limit),
        soft_limits=_soft_limits(message.soft_limits),
        start_time=optional_time(message, "start_time"),
        end_time=optional_time(message, "end_time"),
        soft_limit_shares=_shares(message.soft_limit_shares),
    )


def budget_to_proto(budget: Budget, now: datetime) -> pb.Budget:
    rolling = budget.window is BudgetWindow.ROLLING
    return pb.Budget(
        id=budget.id,
        scope=SCOPE_TO_WIRE[budget.scope],
        scope_id=budget.scope_id,
        window=WINDOW_TO_WIRE[budget.window],
        rolling_length=duration_to_proto(budget.rolling_length_s) if rolling else None,
        time_zone=budget.time_zone,
        hard_limit=money_to_proto(budget.hard_limit),
        soft_limits=[money_to_proto(limit) for limit in budget.soft_limits],
        create_time=timestamp_to_proto(budget.create_time) if budget.create_time else None,
        close_time=timestamp_to_proto(budget.close_time) if budget.close_time else None,
        start_time=timestamp_to_proto(budget.start_time) if budget.start_time else None,
        end_time=timestamp_to_proto(budget.end_time) if budget.end_time else None,
        version=budget.version,
        raised=_raise_to_proto(budget.raised, now) if budget.raised else None,
        soft_limit_shares=map(float, budget.soft_limit_shares),
    )


def raise_from_proto(message: pb.RaiseBudgetRequest, by: str) -> BudgetRaise:
    return BudgetRaise(
        id=message.raise_id,
        amount=money_from_proto(message.amount),
        until=optional_time(message, "end_time"),
        reason=message.reason,
        by=by,
    )


def _raise_to_proto(raised: BudgetRaise, now: datetime) -> pb.BudgetRaise | None:
    if raised.until is None or not raised.holds(now):
        return None
    return pb.BudgetRaise(
        id=raised.id,
        amount=money_to_proto(raised.amount),
        end_time=timestamp_to_proto(raised.until),
        reason=raised.reason,
        raised_by=raised.by,
    )


def change_from_proto(message: pb.UpdateBudgetRequest, tenant: str) -> BudgetChange:
    return BudgetChange(
        tenant=tenant,
        budget_id=message.id,
        version=message.version,
        fields=frozenset(_field(path) for path in message.update_mask.paths),
        hard_limit=optional_money_from_proto(message.hard_limit),
        soft_limits=_soft_limits(message.soft_limits),
        end_time=optional_time(message, "end_time"),
        soft_limit_shares=_shares(message.soft_limit_shares),
    )


def _shares(numbers: Sequence[float]) -> tuple[Decimal, ...]:
    """The decimals that the numbers were written as."""
    return tuple(Decimal(repr(number)) for number in numbers)


def _soft_limits(messages: Sequence[money_pb2.Money]) -> tuple[Money, ...]:
    if len(messages) > SOFT_LIMITS_MAX:
        raise InvalidBudget(f"{len(messages)} soft limits; give at most {SOFT_LIMITS_MAX}")
    return tuple(money_from_proto(message) for message in messages)


def _field(path: str) -> BudgetField:
    if path not in FIELDS:
        raise InvalidBudget(
            f"update_mask names {path!r}; only {', '.join(FIELDS)} can change: close the budget "
            "and create another one"
        )
    return BudgetField(path)


def status_to_proto(status: BudgetStatus) -> pb.BudgetStatus:
    code = status.budget.hard_limit.currency_code
    end, forecast = status.window_end, status.forecast
    exhausted = forecast and forecast.exhaust_time
    return pb.BudgetStatus(
        budget=budget_to_proto(status.budget, status.read_time),
        window_start=timestamp_to_proto(status.window_start),
        posted=money_to_proto(Money(status.posted, code)),
        held=money_to_proto(Money(status.held, code)),
        remaining=money_to_proto(Money(status.remaining, code)),
        window_end=timestamp_to_proto(end) if end else None,
        forecast=money_to_proto(forecast.posted) if forecast else None,
        exhaust_time=timestamp_to_proto(exhausted) if exhausted else None,
        limit=money_to_proto(status.limit),
    )


def window_to_proto(window: CountedWindow) -> pb.CountedWindow:
    return pb.CountedWindow(
        start_time=timestamp_to_proto(window.start),
        end_time=timestamp_to_proto(window.end) if window.end else None,
        posted=money_to_proto(window.posted),
        held=money_to_proto(window.held),
        hard_limit=money_to_proto(window.hard_limit),
    )


def window_from_token(token: str) -> datetime | None:
    """The start that the next page is before. Raises InvalidPageToken."""
    before = decode_page_token(token).get("before_window", "")
    if not before:
        return None
    try:
        start = datetime.fromisoformat(before)
        # The database stores times in UTC, and no others.
        in_utc = start.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidPageToken from error
    if start.tzinfo is None:
        raise InvalidPageToken
    return in_utc


def next_windows_page(windows: Sequence[CountedWindow], limit: int) -> str:
    if len(windows) < limit:
        return ""
    return encode_page_token({"before_window": windows[-1].start.isoformat()})


SCHEMA = "podium.ledger.v1.BudgetAlert"
# Larger than any sequence: the first page starts at the newest alert.
NEWEST = 2**63 - 1


def alert_to_proto(alert: BudgetAlert) -> alert_pb2.BudgetAlert:
    published = alert.publish_time
    return alert_pb2.BudgetAlert(
        id=alert.id,
        tenant=alert.tenant,
        budget_id=alert.budget_id,
        window_start=timestamp_to_proto(alert.window_start),
        soft_limit=money_to_proto(alert.soft_limit),
        posted=money_to_proto(alert.posted),
        hard_limit=money_to_proto(alert.hard_limit),
        create_time=timestamp_to_proto(alert.create_time),
        publish_time=timestamp_to_proto(published) if published else None,
        share=float(alert.share),
    )


def alert_record(alert: BudgetAlert) -> StreamRecord:
    """One key per budget keeps its alerts in order."""
    return StreamRecord(
        key=f"{alert.tenant}/{alert.budget_id}",
        value=alert_to_proto(alert).SerializeToString(deterministic=True),
        headers={"record-id": alert.id, "schema": SCHEMA},
    )


def before_from_token(page_token: str) -> int:
    before = decode_page_token(page_token).get("before", "")
    return int(before) if before.isdecimal() else NEWEST


def next_alerts_page(alerts: list[BudgetAlert], limit: int) -> str:
    return encode_page_token({"before": str(alerts[-1].sequence)}) if len(alerts) == limit else ""
