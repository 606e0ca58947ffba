from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import grpc
import pytest
import pytest_asyncio
from sqlalchemy import text

from integration.cost_ledger.builders import (
    make_budget,
    make_capture,
    make_key,
    make_price,
    make_record,
    make_reserve,
    make_usage,
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
from podium.common.v1 import money_pb2, usage_pb2
from podium.ledger.v1 import budget_service_pb2 as budgets_pb
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import hold_pb2
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium_kit.wire import timestamp_to_proto

BLOCKED = grpc.StatusCode.FAILED_PRECONDITION


def adjustment(sequence: int, amount: str, key: str = "fix", **fields: Any) -> pb.AdjustRequest:
    defaults: dict[str, Any] = {"change": usd(amount), "reason": "agreed"}
    return pb.AdjustRequest(key=key, sequence=sequence, **defaults | fields)


async def posted(client: Client) -> Decimal:
    reply = await client.budgets.GetBudget(budgets_pb.GetBudgetRequest(id="cap"))
    return Decimal(reply.status.posted.amount)


@pytest_asyncio.fixture
async def budget(admin: Client) -> None:
    request = budgets_pb.CreateBudgetRequest(budget=make_budget())
    await admin.budgets.CreateBudget(request)


@pytest.mark.usefixtures("budget")
async def test_an_adjustment_takes_no_more_than_is_left_of_the_cost(
    worker: Client, admin: Client
) -> None:
    cost = (await worker.ledger.Record(make_record())).entry  # $0.00225
    first = await admin.ledger.Adjust(adjustment(cost.sequence, "-0.002"))
    assert await admin.ledger.Adjust(adjustment(cost.sequence, "-0.002")) == first
    too_much = admin.ledger.Adjust(adjustment(cost.sequence, "-0.001", "more"))
    assert "less than nothing" in await rejection_of(too_much, BLOCKED)
    await admin.ledger.Adjust(adjustment(cost.sequence, "-0.00025", "rest"))
    assert await posted(worker) == 0
    assert not await findings_of(worker)


async def test_only_a_final_priced_cost_in_its_currency_can_be_adjusted(
    worker: Client, admin: Client
) -> None:
    hold = await worker.ledger.Reserve(make_reserve("k"))
    assert hold.HasField("hold")
    assert "is no cost" in await rejection_of(admin.ledger.Adjust(adjustment(1, "1")), BLOCKED)
    cost = (await worker.ledger.Record(make_record())).entry
    euros = money_pb2.Money(currency_code="EUR", amount="1")
    other = admin.ledger.Adjust(adjustment(cost.sequence, "1", change=euros))
    assert "it is in USD" in await rejection_of(other, BLOCKED)
    unknown = (await worker.ledger.Record(make_record(sku="nobody/knows"))).entry
    unpriced = admin.ledger.Adjust(adjustment(unknown.sequence, "1"))
    assert "price is unknown" in await rejection_of(unpriced, BLOCKED)
    missing = admin.ledger.Adjust(adjustment(99, "1"))
    await rejection_of(missing, grpc.StatusCode.NOT_FOUND)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (adjustment(1, "0"), "nothing to adjust"),
        (adjustment(1, "1", reason=""), "reason is empty"),
        (adjustment(0, "1"), "sequence is"),
    ],
)
async def test_an_adjustment_that_cannot_be_understood_is_rejected(
    worker: Client, admin: Client, request_: pb.AdjustRequest, words: str
) -> None:
    rejection = await rejection_of(admin.ledger.Adjust(request_), grpc.StatusCode.INVALID_ARGUMENT)
    assert words in rejection


@pytest.mark.usefixtures("budget")
async def test_an_estimate_is_settled_once(worker: Client, admin: Client) -> None:
    await worker.ledger.Reserve(make_reserve("k"))
    guess = make_capture("k")
    guess.usage.source = usage_pb2.USAGE_SOURCE_ESTIMATED
    guessed = (await worker.ledger.Capture(guess)).entry
    truth = pb.SettleRequest(key="k", usage=make_usage(input_fresh=1000, output_text=200))
    entry = await admin.ledger.Settle(truth)
    assert entry.entry.amount == usd("0.00325")
    assert await admin.ledger.Settle(truth) == entry
    taken_back = admin.ledger.Adjust(adjustment(guessed.sequence, "1"))
    assert "already corrects it" in await rejection_of(taken_back, BLOCKED)
    other = pb.SettleRequest(key="k", usage=make_usage(input_fresh=1, output_text=1))
    again = admin.ledger.Settle(other)
    assert "other content" in await rejection_of(again, grpc.StatusCode.ALREADY_EXISTS)
    assert await posted(worker) == Decimal("0.00325")
    assert not await findings_of(worker)


@pytest.mark.usefixtures("budget")
async def test_an_unknown_cost_is_settled_once_there_is_a_price(
    worker: Client, admin: Client
) -> None:
    sku = f"own/{make_key()}"
    admitted = hold_pb2.UNKNOWN_PRICE_POLICY_ADMIT
    await worker.ledger.Reserve(make_reserve("k", sku=sku, unknown_price=admitted))
    unpriced = (await worker.ledger.Capture(make_capture("k"))).entry
    assert not unpriced.HasField("amount")
    change = await rejection_of(admin.ledger.Adjust(adjustment(unpriced.sequence, "1")), BLOCKED)
    assert "settle its key" in change
    recorded = pb.SettleRequest(key="k")
    assert f"{sku} had no price at" in await rejection_of(admin.ledger.Settle(recorded), BLOCKED)
    price = prices_pb.CreatePricesRequest(specs=[make_price(sku)])
    await admin.prices.CreatePrices(price)
    entry = await admin.ledger.Settle(recorded)
    assert entry.entry.amount == usd("0.00225")
    assert await admin.ledger.Settle(recorded) == entry
    assert await posted(worker) == Decimal("0.00225")
    assert not await findings_of(worker)


@pytest.mark.usefixtures("budget")
async def test_unknown_costs_are_listed_until_they_are_settled(
    worker: Client, admin: Client
) -> None:
    async def unpriced_keys(**asked: Any) -> list[str]:
        request = pb.ListEntriesRequest(unpriced=True, **asked)
        return [entry.key for entry in (await worker.ledger.ListEntries(request)).entries]

    sku = f"own/{make_key()}"
    admitted = hold_pb2.UNKNOWN_PRICE_POLICY_ADMIT
    await worker.ledger.Reserve(make_reserve("held", sku=sku, unknown_price=admitted))
    assert await unpriced_keys() == []
    await worker.ledger.Capture(make_capture("held"))
    recorded = (await worker.ledger.Record(make_record("recorded", sku=sku))).entry
    await worker.ledger.Record(make_record("priced"))
    lost = usage_pb2.Usage(source=usage_pb2.USAGE_SOURCE_ESTIMATED)
    await worker.ledger.Record(make_record("cut off", sku=sku, usage=lost))
    assert await unpriced_keys() == ["held", "recorded", "cut off"]
    assert await unpriced_keys(episode_id="episode-1", page_size=1) == ["held"]
    assert await unpriced_keys(episode_id="another") == []
    wait = await rejection_of(admin.ledger.Settle(pb.SettleRequest(key="recorded")), BLOCKED)
    assert f"{sku} had no price at" in wait

    await admin.prices.CreatePrices(prices_pb.CreatePricesRequest(specs=[make_price(sku)]))
    for key in ("held", "recorded"):
        settled = (await admin.ledger.Settle(pb.SettleRequest(key=key))).entry
        assert settled.amount == usd("0.00225")
        assert (await admin.ledger.Settle(pb.SettleRequest(key=key))).entry == settled
    assert settled.kind == hold_pb2.ENTRY_KIND_RECORD
    repeated = (await worker.ledger.Record(make_record("recorded", sku=sku))).entry
    assert repeated.sequence == recorded.sequence
    assert await unpriced_keys() == ["cut off"]
    unmeasured = await rejection_of(admin.ledger.Settle(pb.SettleRequest(key="cut off")), BLOCKED)
    assert "its usage is unknown" in unmeasured
    billed = pb.SettleRequest(key="cut off", usage=make_usage(input_fresh=1000, output_text=100))
    await admin.ledger.Settle(billed)
    assert await unpriced_keys() == []
    assert await posted(worker) == 4 * Decimal("0.00225")
    assert not await findings_of(worker)


async def test_a_true_or_missing_cost_cannot_be_settled(worker: Client, admin: Client) -> None:
    truth = pb.SettleRequest(key="k", usage=make_usage(output_text=1))
    await rejection_of(admin.ledger.Settle(truth), grpc.StatusCode.NOT_FOUND)
    await worker.ledger.Reserve(make_reserve("k"))
    assert "capture it" in await rejection_of(admin.ledger.Settle(truth), BLOCKED)
    await worker.ledger.Capture(make_capture("k"))
    assert "is no estimate" in await rejection_of(admin.ledger.Settle(truth), BLOCKED)
    guess = make_capture("guess")
    guess.usage.source = usage_pb2.USAGE_SOURCE_ESTIMATED
    await worker.ledger.Reserve(make_reserve("guess"))
    await worker.ledger.Capture(guess)
    unsaid = admin.ledger.Settle(pb.SettleRequest(key="guess"))
    assert "DIMENSION=AMOUNT" in await rejection_of(unsaid, BLOCKED)


PRUNE = text("SELECT prune_keys(1000)")


def days_ago(days: int) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


async def close_before(admin: Client, end: datetime, key: str = "close") -> hold_pb2.Entry:
    request = pb.ClosePeriodRequest(key=key, end_time=timestamp_to_proto(end))
    return (await admin.ledger.ClosePeriod(request)).entry


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
    entry = (await admin.ledger.Adjust(adjustment(wrong.sequence, "-0.00225"))).entry
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
