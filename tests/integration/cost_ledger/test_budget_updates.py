import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from integration.cost_ledger.builders import (
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
from podium_kit.rpc.identity import Scope

INVALID, BLOCKED = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION


def change(*paths: str, id: str = "cap", version: int = 0, **fields: Any) -> pb.UpdateBudgetRequest:
    mask = FieldMask(paths=paths or tuple(fields))
    return pb.UpdateBudgetRequest(id=id, version=version, update_mask=mask, **fields)


async def updated(client: Client, request: pb.UpdateBudgetRequest) -> pb.Budget:
    return (await client.budgets.UpdateBudget(request)).budget


async def test_a_new_limit_decides_the_next_call_and_keeps_what_was_spent(
    worker: Client, admin: Client
) -> None:
    await admin.add_budget(limit="0.005")
    await worker.ledger.Record(make_record())
    assert (await worker.ledger.Reserve(make_reserve("k"))).HasField("rejection")
    budget = await updated(admin, change(hard_limit=usd("0.02")))
    assert (budget.version, budget.hard_limit) == (2, usd("0.02"))
    assert (await worker.ledger.Reserve(make_reserve("k2"))).HasField("hold")
    status = await worker.status()
    assert (status.posted, status.held) == (usd("0.00225"), usd("0.01125"))
    assert not await findings_of(worker)


async def test_a_lower_limit_keeps_open_holds_and_rejects_what_comes_after(
    worker: Client, admin: Client
) -> None:
    await admin.add_budget()
    await worker.ledger.Reserve(make_reserve("k"))
    await updated(admin, change(hard_limit=usd("0.005")))
    status = await worker.status()
    assert (status.held, status.remaining) == (usd("0.01125"), usd("0"))
    assert (await worker.ledger.Reserve(make_reserve("k2"))).rejection.budget_id == "cap"
    assert (await worker.ledger.Capture(make_capture("k"))).entry.amount == usd("0.00225")
    assert not await findings_of(worker)


async def test_limits_that_change_while_calls_are_held_are_never_passed(
    worker: Client, admin: Client
) -> None:
    await admin.add_budget(limit="0.05")
    limits = ["0.02", "0.1", "0.03", "0.06", "0.01", "0.08"]

    async def keep_changing() -> None:
        for limit in limits:
            await updated(admin, change(hard_limit=usd(limit)))

    reserves = (worker.ledger.Reserve(make_reserve(f"k{n}")) for n in range(64))
    await asyncio.gather(keep_changing(), *reserves)
    assert not await findings_of(worker)
    assert (await worker.status()).budget.version == 1 + len(limits)


async def test_soft_limits_and_the_end_change_alone_and_can_be_taken_away(admin: Client) -> None:
    later = datetime.now(UTC) + timedelta(days=1)
    before = await admin.add_budget(soft_limits=[usd("0.5")], end_time=later)
    softer = await updated(admin, change(soft_limits=[usd("0.2"), usd("0.8")]))
    assert list(softer.soft_limits) == [usd("0.2"), usd("0.8")]
    assert (softer.end_time, softer.hard_limit) == (before.end_time, before.hard_limit)
    assert not (await updated(admin, change("soft_limits"))).soft_limits
    open_ended = await updated(admin, change("end_time"))
    assert not open_ended.HasField("end_time")
    assert open_ended.version == 4


async def test_a_new_soft_limit_that_is_passed_already_raises_its_alert_once(
    worker: Client, admin: Client
) -> None:
    await admin.add_budget()
    await worker.ledger.Record(make_record())
    soft = change(soft_limits=[usd("0.002")])
    await updated(admin, soft)
    await updated(admin, soft)
    await worker.ledger.Record(make_record())
    alerts = (await admin.budgets.ListAlerts(pb.ListAlertsRequest())).alerts
    assert [(alert.soft_limit, alert.posted) for alert in alerts] == [
        (usd("0.002"), usd("0.00225"))
    ]


async def test_a_change_made_from_an_old_version_is_rejected_unless_it_is_a_retry(
    admin: Client,
) -> None:
    await admin.add_budget()
    mine = change(hard_limit=usd("2"), version=1)
    first = await updated(admin, mine)
    assert await updated(admin, mine) == first
    theirs = admin.budgets.UpdateBudget(change(hard_limit=usd("3"), version=1))
    assert "version 2, not 1" in await rejection_of(theirs, grpc.StatusCode.ABORTED)
    assert (await updated(admin, change(hard_limit=usd("3"), version=2))).version == 3


async def test_of_changes_made_at_once_from_one_version_one_is_kept(admin: Client) -> None:
    await admin.add_budget()
    calls = (
        admin.budgets.UpdateBudget(change(hard_limit=usd(str(n)), version=1)) for n in range(2, 10)
    )
    replies = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(reply, pb.UpdateBudgetResponse) for reply in replies) == 1
    assert (await admin.status()).budget.version == 2


async def test_a_budget_is_created_again_with_what_it_was_created_with(admin: Client) -> None:
    await admin.add_budget()
    changed = await updated(admin, change(hard_limit=usd("2")))
    assert await admin.add_budget() == changed
    again = admin.add_budget(limit="2")
    await rejection_of(again, grpc.StatusCode.ALREADY_EXISTS)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (change(hard_limit=usd("-1")), "is negative"),
        (change(hard_limit=usd("0.1")), "soft limit 0.5 USD is above the hard limit"),
        (
            change(hard_limit=money_pb2.Money(currency_code="EUR", amount="1")),
            "counts USD; 1 EUR is another currency",
        ),
        (change(end_time=datetime(2020, 1, 1, tzinfo=UTC)), "end_time is in the past"),
        (change("hard_limit"), "hard_limit is unset"),
        (change(), "update_mask is unset; name what changes"),
        (change("window"), "update_mask names 'window'"),
        (change(hard_limit=usd("2"), version=-1), "version is -1"),
    ],
)
async def test_a_change_that_cannot_be_enforced_is_rejected_and_changes_nothing(
    admin: Client, request_: pb.UpdateBudgetRequest, words: str
) -> None:
    before = await admin.add_budget(soft_limits=[usd("0.5")])
    assert words in await rejection_of(admin.budgets.UpdateBudget(request_), INVALID)
    assert (await admin.status()).budget == before


async def test_a_budget_that_ended_does_not_change(ledger: RunningLedger, admin: Client) -> None:
    unknown = admin.budgets.UpdateBudget(change(hard_limit=usd("2")))
    await rejection_of(unknown, grpc.StatusCode.NOT_FOUND)
    await admin.add_budget(end_time=datetime.now(UTC) + timedelta(hours=1))
    await set_clock(ledger, "2 hours")
    over = admin.budgets.UpdateBudget(change("end_time"))
    assert "is over since" in await rejection_of(over, BLOCKED)
    await admin.budgets.CloseBudget(pb.CloseBudgetRequest(id="cap"))
    closed = admin.budgets.UpdateBudget(change(hard_limit=usd("2")))
    assert "is closed; create one of another id" in await rejection_of(closed, BLOCKED)


async def test_only_who_may_create_a_budget_may_change_it(
    ledger: RunningLedger, admin: Client
) -> None:
    await admin.add_budget()
    runner = ledger.as_("acme", Scope.EPISODES_RUN)
    mine = runner.budgets.UpdateBudget(change(hard_limit=usd("9")))
    await rejection_of(mine, grpc.StatusCode.PERMISSION_DENIED)
    stranger = ledger.as_("zeta", Scope.TENANT_ADMIN)
    theirs = stranger.budgets.UpdateBudget(change(hard_limit=usd("9")))
    await rejection_of(theirs, grpc.StatusCode.NOT_FOUND)


async def test_an_auditor_sees_each_version_and_which_entries_it_decided(
    ledger: RunningLedger, worker: Client, admin: Client
) -> None:
    await admin.add_budget()
    await worker.ledger.Reserve(make_reserve("k"))
    await updated(admin, change(hard_limit=usd("2")))
    async with as_tenants(ledger, "acme") as connection:
        query = "SELECT version, after_sequence, hard_limit::float FROM budget_version ORDER BY 1"
        assert await rows_of(connection, query) == [(1, 0, 1.0), (2, 1, 2.0)]
    with pytest.raises(Exception, match="immutable"):
        async with as_owner(ledger) as connection:
            await rows_of(connection, "UPDATE budget_version SET hard_limit = 9 RETURNING 1")
