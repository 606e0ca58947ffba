import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import grpc
import pytest
import uuid_utils
from google.protobuf.field_mask_pb2 import FieldMask
from hypothesis import given
from hypothesis import strategies as st

from cost_ledger.budgets.raises import BudgetRaise
from cost_ledger.errors import InvalidBudget
from integration.cost_ledger.builders import (
    make_budget,
    make_capture,
    make_record,
    make_reserve,
    usd,
)
from integration.cost_ledger.running_ledger import (
    Client,
    RunningLedger,
    as_owner,
    as_tenants,
    findings_of,
    rejection_of,
    rows_of,
    set_clock,
)
from podium.common.v1 import money_pb2
from podium.ledger.v1 import budget_service_pb2 as pb
from podium_kit.money import Money
from podium_kit.rpc.identity import Scope

INVALID = grpc.StatusCode.INVALID_ARGUMENT


def make_raise(
    amount: str = "0.0225", currency: str = "USD", **fields: Any
) -> pb.RaiseBudgetRequest:
    """A raise, by default of two more calls for a day."""
    defaults: dict[str, Any] = {
        "id": "cap",
        "raise_id": str(uuid_utils.uuid7()),
        "amount": money_pb2.Money(currency_code=currency, amount=amount),
        "reason": "launch",
    }
    if Decimal(amount) > 0:
        defaults["end_time"] = datetime.now(UTC) + timedelta(days=1)
    return pb.RaiseBudgetRequest(**defaults | fields)


async def raised(client: Client, request: pb.RaiseBudgetRequest) -> pb.Budget:
    return (await client.budgets.RaiseBudget(request)).budget


async def admitted(client: Client, count: int, prefix: str = "k") -> int:
    """Returns how many of so many concurrent calls get money."""
    calls = (client.ledger.Reserve(make_reserve(f"{prefix}{n}")) for n in range(count))
    return sum([reply.HasField("hold") for reply in await asyncio.gather(*calls)])


async def test_a_raise_admits_more_and_ends_by_itself_without_failing_what_is_held(
    ledger: RunningLedger, worker: Client, admin: Client
) -> None:
    await admin.add_budget(limit="0.01125")
    budget = await raised(admin, make_raise())
    assert (budget.hard_limit, budget.version) == (usd("0.01125"), 2)
    found = budget.raised
    assert (found.amount, found.reason, found.raised_by) == (usd("0.0225"), "launch", "ada")
    assert await admitted(worker, 16) == 3
    status = await worker.status()
    assert (status.limit, status.remaining, status.budget.raised) == (
        usd("0.03375"),
        usd("0"),
        found,
    )
    await set_clock(ledger, "25 hours")
    status = await worker.status()
    assert (status.limit, status.remaining) == (usd("0.01125"), usd("0"))
    assert not status.budget.HasField("raised")
    assert await admitted(worker, 4, "after") == 0
    held = [entry.key for entry in await worker.entries()]
    for key in held:
        assert (await worker.ledger.Capture(make_capture(key))).entry.amount == usd("0.00225")
    # 0.00675 are spent of 0.01125, too little for another one.
    assert await admitted(worker, 1, "last") == 0
    assert not await findings_of(worker)


async def test_a_raise_is_made_once_however_often_it_is_sent_and_also_after_its_end(
    ledger: RunningLedger, admin: Client
) -> None:
    await admin.add_budget()
    first = make_raise()
    answers = await asyncio.gather(*(raised(admin, first) for _ in range(8)))
    assert {answer.version for answer in answers} == {2}
    other = ledger.as_("acme", Scope.TENANT_ADMIN, subject="eve")
    assert (await raised(other, first)).raised.raised_by == "ada"
    await raised(admin, make_raise("0.5"))
    # Its retry does not bring it back.
    assert (await raised(admin, first)).raised.amount == usd("0.5")
    changed = pb.RaiseBudgetRequest()
    changed.CopyFrom(first)
    changed.reason = "another"
    reused = admin.budgets.RaiseBudget(changed)
    assert "use a new raise_id" in await rejection_of(reused, grpc.StatusCode.ALREADY_EXISTS)
    await set_clock(ledger, "25 hours")
    late = await raised(admin, first)
    assert (late.version, late.HasField("raised")) == (3, False)


async def test_a_new_raise_replaces_the_one_before_and_zero_ends_it(
    worker: Client, admin: Client
) -> None:
    await admin.add_budget(limit="0.01125")
    await raised(admin, make_raise("5"))
    await raised(admin, make_raise("0.01125"))
    assert (await worker.status()).limit == usd("0.0225")
    ended = await raised(admin, make_raise("0"))
    assert not ended.HasField("raised")
    assert (await worker.status()).limit == usd("0.01125")
    assert await admitted(worker, 8) == 1
    assert not await findings_of(worker)


async def test_a_change_of_the_limit_keeps_the_raise_and_an_auditor_sees_both(
    ledger: RunningLedger, worker: Client, admin: Client
) -> None:
    await admin.add_budget()
    await raised(admin, make_raise())
    mask = FieldMask(paths=["hard_limit"])
    await admin.budgets.UpdateBudget(
        pb.UpdateBudgetRequest(id="cap", hard_limit=usd("2"), update_mask=mask)
    )
    assert (await worker.status()).limit == usd("2.0225")
    # As it was created, and no more.
    assert (await admin.add_budget()).version == 3
    async with as_tenants(ledger, "acme") as connection:
        query = """
            SELECT version, hard_limit::float, raise_amount::float, raise_reason, raised_by
            FROM budget_version ORDER BY 1
        """
        assert await rows_of(connection, query) == [
            (1, 1.0, None, None, None),
            (2, 1.0, 0.0225, "launch", "ada"),
            (3, 2.0, 0.0225, "launch", "ada"),
        ]


async def test_raises_that_begin_and_end_while_calls_are_held_are_never_passed(
    worker: Client, admin: Client
) -> None:
    await admin.add_budget(limit="0.045")

    async def keep_raising() -> None:
        for amount in ("0.1", "0", "0.03", "0.2", "0", "0.01"):
            await raised(admin, make_raise(amount))

    await asyncio.gather(keep_raising(), admitted(worker, 64))
    assert not await findings_of(worker)


async def test_a_hold_above_the_limit_after_a_raise_is_found(
    ledger: RunningLedger, worker: Client, admin: Client
) -> None:
    await admin.add_budget(limit="0.01125")
    await raised(admin, make_raise())
    assert await admitted(worker, 3) == 3
    assert not await findings_of(worker)
    async with as_owner(ledger) as connection:
        await connection.exec_driver_sql("ALTER TABLE budget_version DISABLE TRIGGER immutable")
        await connection.exec_driver_sql("UPDATE budget_version SET raise_until = create_time")
    (found,) = await findings_of(worker)
    assert (found.rule, found.row) == ("I4", "entry 2")


async def test_a_window_is_listed_with_the_limit_that_held_at_its_end(
    ledger: RunningLedger, worker: Client, admin: Client
) -> None:
    await admin.add_budget(window=pb.BUDGET_WINDOW_DAY)
    await worker.ledger.Record(make_record("first"))
    await raised(admin, make_raise("1", end_time=datetime.now(UTC) + timedelta(days=2, hours=1)))
    for days in range(1, 5):
        await set_clock(ledger, f"{days} days")
        await worker.ledger.Record(make_record(f"k{days}"))
    request = pb.ListBudgetWindowsRequest(id="cap")
    windows = (await worker.budgets.ListBudgetWindows(request)).windows
    limits = [window.hard_limit.amount for window in reversed(windows)]
    # The third day ends with the raise or, in its last hour, before it.
    assert (limits[:2], limits[3:]) == (["2", "2"], ["1", "1"])


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (make_raise(raise_id="not-one"), "a lower-case UUIDv7"),
        (make_raise(raise_id="01890a5d-ac96-474b-bcce-b302099a8057"), "a lower-case UUIDv7"),
        (make_raise(reason=""), "reason is empty"),
        (make_raise(reason=" "), "say why the budget is raised"),
        (make_raise(reason="a\0b"), "holds the character NUL"),
        (make_raise("-1"), "is negative; update hard_limit to lower it"),
        (make_raise("1", end_time=None), "end_time is unset; a raise ends by itself"),
        (make_raise("0", end_time=datetime(2030, 1, 1, tzinfo=UTC)), "ends the raise now"),
        (make_raise(end_time=datetime(2020, 1, 1, tzinfo=UTC)), "end_time is in the past"),
        (
            make_raise(end_time=datetime.now(UTC) + timedelta(days=31, hours=1)),
            "more than 31 days ahead",
        ),
        (make_raise("9999999999999999"), "is out of range"),
        (
            make_raise("1", currency="EUR"),
            "counts USD; 1 EUR is another currency",
        ),
    ],
)
async def test_a_raise_that_cannot_be_enforced_is_rejected_and_changes_nothing(
    admin: Client, request_: pb.RaiseBudgetRequest, words: str
) -> None:
    before = await admin.add_budget()
    assert words in await rejection_of(admin.budgets.RaiseBudget(request_), INVALID)
    assert (await admin.status()).budget == before


async def test_only_an_administrator_of_the_budget_raises_it_and_only_while_it_is_open(
    ledger: RunningLedger, admin: Client
) -> None:
    unknown = admin.budgets.RaiseBudget(make_raise())
    await rejection_of(unknown, grpc.StatusCode.NOT_FOUND)
    await admin.add_budget()
    runner = ledger.as_("acme", Scope.EPISODES_RUN, Scope.SPEND_READ)
    mine = runner.budgets.RaiseBudget(make_raise())
    await rejection_of(mine, grpc.StatusCode.PERMISSION_DENIED)
    stranger = ledger.as_("zeta", Scope.TENANT_ADMIN)
    theirs = stranger.budgets.RaiseBudget(make_raise())
    await rejection_of(theirs, grpc.StatusCode.NOT_FOUND)
    operator = ledger.admin()
    cap = make_budget("platform:cap")
    await operator.budgets.CreateBudget(pb.CreateBudgetRequest(budget=cap, tenant="acme"))
    limited = admin.budgets.RaiseBudget(make_raise(id="platform:cap"))
    await rejection_of(limited, grpc.StatusCode.PERMISSION_DENIED)
    await raised(operator, make_raise(id="platform:cap", tenant="acme"))
    made = make_raise()
    await raised(admin, made)
    await admin.budgets.CloseBudget(pb.CloseBudgetRequest(id="cap"))
    closed = admin.budgets.RaiseBudget(make_raise())
    assert "is closed" in await rejection_of(closed)
    assert (await raised(admin, made)).HasField("close_time")


async def test_shares_of_a_limit_alert_once_and_move_with_a_raise(
    ledger: RunningLedger, worker: Client, admin: Client
) -> None:
    """A call costs 0.00225: the first passes 0.2 of 0.01, and the third 0.2 of 0.03."""
    budget = await admin.add_budget(limit="0.01", soft_limit_shares=[0.2, 0.9999])
    assert list(budget.soft_limit_shares) == [0.2, 0.9999]
    await raised(admin, make_raise("0.02"))
    seen = []
    for number in range(3):
        await worker.ledger.Record(make_record(f"k{number}"))
        seen.append(len((await admin.budgets.ListAlerts(pb.ListAlertsRequest())).alerts))
    assert seen == [0, 0, 1]
    await set_clock(ledger, "25 hours")
    await asyncio.gather(*(worker.ledger.Record(make_record(f"more{n}")) for n in range(8)))
    alerts = (await admin.budgets.ListAlerts(pb.ListAlertsRequest())).alerts
    assert [(each.share, each.soft_limit, each.hard_limit) for each in alerts] == [
        (0.9999, usd("0.009999"), usd("0.01")),
        (0.2, usd("0.006"), usd("0.03")),
    ]
    assert [each.id.rpartition("/")[2] for each in alerts] == ["99.99%", "20%"]


async def test_shares_change_alone_and_one_that_is_passed_already_alerts_at_once(
    worker: Client, admin: Client
) -> None:
    await admin.add_budget(limit="0.01", soft_limits=[usd("0.01")])
    await worker.ledger.Record(make_record())
    mask = FieldMask(paths=["soft_limit_shares"])
    change = pb.UpdateBudgetRequest(id="cap", soft_limit_shares=[0.1, 1], update_mask=mask)
    budget = (await admin.budgets.UpdateBudget(change)).budget
    assert (list(budget.soft_limit_shares), list(budget.soft_limits)) == ([0.1, 1], [usd("0.01")])
    (alert,) = (await admin.budgets.ListAlerts(pb.ListAlertsRequest())).alerts
    assert (alert.share, alert.soft_limit) == (0.1, usd("0.001"))
    none = pb.UpdateBudgetRequest(id="cap", update_mask=mask)
    assert not (await admin.budgets.UpdateBudget(none)).budget.soft_limit_shares


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ([0.0], "above 0 and at most 1"),
        ([1.1], "soft_limit_shares"),
        ([0.80001], "at most 4 decimals"),
        ([0.9, 0.8], "must ascend"),
        ([0.8, 0.8], "must ascend"),
        ([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], "soft_limit_shares"),
        ([float("nan")], "soft_limit_shares"),
    ],
)
async def test_shares_that_are_none_are_rejected(
    admin: Client, shares: list[float], words: str
) -> None:
    made = admin.add_budget(soft_limit_shares=shares)
    assert words in await rejection_of(made, INVALID)


@given(st.timedeltas(timedelta(microseconds=1), timedelta(days=31)), st.timedeltas())
def test_a_raise_holds_before_its_end_and_never_from_then_on(
    length: timedelta, later: timedelta
) -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    one = BudgetRaise("r", Money(Decimal(1), "USD"), now + length, "launch", "ada")
    one.check_new(now)
    later = max(timedelta(0), min(later, timedelta(days=400)))
    assert one.holds(now + later) == (later < length)
    with pytest.raises(InvalidBudget):
        one.check_new(now + length)
