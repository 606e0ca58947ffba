from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from sqlalchemy import text

from integration.cost_ledger.builders import make_capture, make_record, make_reserve, usd
from integration.cost_ledger.running_ledger import Client, RunningLedger
from integration.cost_ledger.sql_access import as_owner, as_tenants, rows_of, set_clock
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import hold_pb2
from podium_kit.wire import timestamp_to_proto

PRUNE = text("SELECT prune_keys(1000)")


def days_ago(days: int) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


async def close_before(admin: Client, end: datetime, key: str = "close") -> hold_pb2.Entry:
    request = pb.ClosePeriodRequest(key=key, end_time=timestamp_to_proto(end))
    return (await admin.ledger.ClosePeriod(request)).entry


async def rejection_of(call: Any) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await call
    assert rejected.value.code() is grpc.StatusCode.FAILED_PRECONDITION, rejected.value
    return str(rejected.value.details())


async def test_what_occurred_in_a_closed_period_is_rejected_and_changes_nothing(
    worker: Client, admin: Client
) -> None:
    await worker.ledger.Reserve(make_reserve("held"))
    closing = await close_before(admin, days_ago(10))
    assert (closing.kind, closing.sequence) == (hold_pb2.ENTRY_KIND_CLOSE, 2)
    old = {"occur_time": days_ago(11)}
    assert "closed" in await rejection_of(worker.ledger.Record(make_record("late", **old)))
    capture = make_capture("held")
    capture.occur_time.FromDatetime(days_ago(11))
    assert "closed" in await rejection_of(worker.ledger.Capture(capture))
    assert len((await worker.ledger.ListEntries(pb.ListEntriesRequest())).entries) == 2
    open_days = {"occur_time": days_ago(9)}
    assert (await worker.ledger.Record(make_record("late", **open_days))).entry.sequence == 3


async def test_a_closing_can_be_repeated_and_is_final(worker: Client, admin: Client) -> None:
    end = days_ago(10)
    first = await close_before(admin, end)
    assert await close_before(admin, end) == first
    assert "closed already" in await rejection_of(close_before(admin, days_ago(20), "earlier"))
    assert "future" in await rejection_of(close_before(admin, days_ago(-1), "tomorrow"))
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await close_before(worker, days_ago(5), "worker")
    assert rejected.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_a_correction_of_a_closed_period_occurs_in_the_open_one(
    worker: Client, admin: Client
) -> None:
    wrong = (await worker.ledger.Record(make_record("k", occur_time=days_ago(11)))).entry
    await close_before(admin, days_ago(10))
    request = pb.ReverseRequest(key="undo", sequence=wrong.sequence, reason="billed twice")
    entry = (await worker.ledger.Reverse(request)).entry
    assert (entry.amount, entry.corrects_sequence) == (usd("-0.00225"), wrong.sequence)
    assert entry.occur_time == entry.create_time


async def test_only_keys_whose_requests_are_rejected_anyway_are_forgotten(
    ledger: RunningLedger, worker: Client, admin: Client
) -> None:
    timed = make_record("timed", occur_time=days_ago(11))
    await worker.ledger.Record(timed)
    untimed = await worker.ledger.Record(make_record("untimed"))
    async with as_tenants(ledger, "acme") as connection:
        assert (await connection.execute(PRUNE)).scalar_one() == 0
    await close_before(admin, days_ago(10))
    async with as_tenants(ledger, "acme") as connection:
        assert (await connection.execute(PRUNE)).scalar_one() == 1
    assert "closed" in await rejection_of(worker.ledger.Record(timed))
    assert await worker.ledger.Record(make_record("untimed")) == untimed


async def test_a_key_repeated_in_the_next_month_is_answered_from_the_last(
    ledger: RunningLedger, worker: Client
) -> None:
    first = await worker.ledger.Record(make_record("k"))
    await worker.ledger.Reserve(make_reserve("held"))
    await set_clock(ledger, "32 days")
    assert await worker.ledger.Record(make_record("k")) == first
    assert (await worker.ledger.Capture(make_capture("held"))).entry.amount == usd("0.00225")
    async with as_owner(ledger) as connection:
        months = "SELECT tableoid::regclass::text, count(*) FROM entry GROUP BY 1 ORDER BY 1"
        counts = [count for _, count in await rows_of(connection, months)]
    assert counts == [2, 1]


async def test_partitions_are_made_ahead_and_only_once(ledger: RunningLedger) -> None:
    names = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'entry'::regclass"
    async with as_owner(ledger) as connection:
        before = await rows_of(connection, names)
    await set_clock(ledger, "2 months")
    async with as_tenants(ledger) as connection:
        for _ in range(2):
            await connection.execute(text("SELECT make_entry_partitions(12)"))
    async with as_owner(ledger) as connection:
        assert len(await rows_of(connection, names)) == len(before) + 2
