from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from integration.cost_ledger.builders import (
    GPT5,
    make_capture,
    make_price,
    make_record,
    make_reserve,
    usd,
)
from integration.cost_ledger.running_ledger import Client, RunningLedger
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium.ledger.v1 import hold_pb2
from podium.ledger.v1 import price_book_service_pb2 as pb

DEARER = {"input_fresh": ("2.5", "1000000"), "output_text": ("20", "1000000")}


def at(moment: datetime) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(moment)
    return stamp


async def create(client: Client, *specs: pb.PriceSpec, dry: bool = False) -> Any:
    request = pb.CreatePricesRequest(specs=specs, validate_only=dry)
    return await client.prices.CreatePrices(request)


async def listed(client: Client, prefix: str = "") -> list[pb.Price]:
    answer = await client.prices.ListPrices(pb.ListPricesRequest(sku_prefix=prefix))
    return list(answer.prices)


async def effective(client: Client, moment: datetime | None = None) -> pb.Price:
    request = pb.GetEffectivePricesRequest(skus=[GPT5, "unknown/sku"])
    if moment:
        request.at.CopyFrom(at(moment))
    prices = (await client.prices.GetEffectivePrices(request)).prices
    assert set(prices) == {GPT5}
    return prices[GPT5]


async def test_the_same_price_again_is_the_version_it_has(ledger: RunningLedger) -> None:
    admin = ledger.admin()
    again = await create(admin, make_price())
    assert again.created_count == 0
    assert again.prices[0] == await effective(admin)


async def test_a_new_version_starts_where_the_old_one_ends(ledger: RunningLedger) -> None:
    admin = ledger.admin()
    old = await effective(admin)
    new = (await create(admin, make_price(components=DEARER))).prices[0]
    assert (await effective(admin)).id == new.id
    before = new.spec.start_time.ToDatetime(tzinfo=UTC) - timedelta(microseconds=1)
    past = await effective(admin, before)
    assert past.id == old.id
    assert past.spec.end_time == new.spec.start_time


async def test_a_call_is_captured_at_the_price_it_was_admitted_at(
    ledger: RunningLedger, worker: Client
) -> None:
    hold = (await worker.ledger.Reserve(make_reserve("k"))).hold
    await create(ledger.admin(), make_price(components=DEARER))
    entry = (await worker.ledger.Capture(make_capture("k"))).entry
    assert (entry.amount, entry.price_version_id) == (usd("0.00225"), hold.price_version_id)
    assert (await worker.ledger.Record(make_record("new"))).entry.amount == usd("0.0045")


async def test_a_tenants_own_price_is_its_alone(ledger: RunningLedger, worker: Client) -> None:
    own = make_price(components={"output_text": ("1", "1000000")}, tenant="acme")
    await create(ledger.admin(), own)
    assert (await worker.ledger.Record(make_record("k"))).entry.amount == usd("0.0001")
    zeta = ledger.as_("zeta")
    assert (await zeta.ledger.Record(make_record("k"))).entry.amount == usd("0.00225")


async def test_overlapping_prices_are_rejected_and_nothing_is_added(ledger: RunningLedger) -> None:
    admin = ledger.admin()
    start, end = datetime(2020, 1, 1, tzinfo=UTC), datetime(2021, 1, 1, tzinfo=UTC)
    closed = make_price("tool/x", start_time=at(start), end_time=at(end))
    inside = make_price("tool/x", DEARER, start_time=at(start + timedelta(days=30)))
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await create(admin, closed, make_price("tool/y"), inside)
    assert rejected.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert await listed(admin, "tool/") == []


async def test_a_price_that_would_end_before_now_is_rejected_with_the_fix(
    ledger: RunningLedger,
) -> None:
    past = make_price(end_time=at(datetime(2000, 1, 1, tzinfo=UTC)), components=DEARER)
    with pytest.raises(grpc.aio.AioRpcError, match=r"ends before it starts.*give start_time") as no:
        await create(ledger.admin(), past)
    assert no.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_dry_run_answers_and_stores_nothing(ledger: RunningLedger) -> None:
    admin = ledger.admin()
    answer = await create(admin, make_price("tool/x"), make_price(), dry=True)
    assert (answer.created_count, len(answer.prices)) == (1, 2)
    assert await listed(admin, "tool/") == []


async def test_prices_are_listed_in_sku_order_page_by_page(ledger: RunningLedger) -> None:
    admin = ledger.admin()
    await create(admin, *(make_price(f"tool/{name}") for name in "dacb"))
    skus: list[str] = []
    token = ""
    while True:
        request = pb.ListPricesRequest(page_size=2, page_token=token, sku_prefix="tool/")
        page = await admin.prices.ListPrices(request)
        skus.extend(price.spec.sku for price in page.prices)
        token = page.next_page_token
        if not token:
            break
    assert skus == ["tool/a", "tool/b", "tool/c", "tool/d"]


@pytest.mark.parametrize(
    "spec",
    [
        make_price(components={"call": ("-1", "1")}),
        make_price(components={"call": ("1e3", "1")}),
        make_price(components={"call": ("cheap", "1")}),
        make_price(components={"call": ("1", "0")}),
        make_price(components={}),
        make_price(sku=""),
        make_price("tool/x", currency_code="dollars"),
        make_price("tool/x", start_time=Timestamp(seconds=9), end_time=Timestamp(seconds=9)),
    ],
)
async def test_a_price_that_is_not_exact_is_rejected(
    ledger: RunningLedger, spec: pb.PriceSpec
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await create(ledger.admin(), spec)
    assert rejected.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_call_of_unknown_price_is_rejected_unless_admitted(worker: Client) -> None:
    rejection = (await worker.ledger.Reserve(make_reserve("a", sku="unknown"))).rejection
    assert rejection.reason == hold_pb2.REJECTION_REASON_UNKNOWN_PRICE
    capped = {"unknown_price": hold_pb2.UNKNOWN_PRICE_POLICY_ADMIT_AT_CEILING}
    at_ceiling = make_reserve("b", sku="unknown", ceiling=usd("0.5"), **capped)
    assert (await worker.ledger.Reserve(at_ceiling)).hold.amount == usd("0.5")
    admitted = {"unknown_price": hold_pb2.UNKNOWN_PRICE_POLICY_ADMIT}
    hold = (await worker.ledger.Reserve(make_reserve("c", sku="unknown", **admitted))).hold
    assert not hold.HasField("amount")


async def test_an_unknown_cost_is_counted_as_unknown_and_not_as_zero(worker: Client) -> None:
    entry = (await worker.ledger.Record(make_record("k", sku="unknown"))).entry
    assert not entry.HasField("amount")
    (row,) = (await worker.ledger.ReportSpend(ledger_pb.ReportSpendRequest())).rows
    assert (row.call_count, row.unpriced_call_count, list(row.amounts)) == (1, 1, [])


async def test_a_price_that_became_known_prices_the_capture(
    ledger: RunningLedger, worker: Client
) -> None:
    admitted = {"unknown_price": hold_pb2.UNKNOWN_PRICE_POLICY_ADMIT}
    await worker.ledger.Reserve(make_reserve("k", sku="tool/new", **admitted))
    await create(ledger.admin(), make_price("tool/new"))
    assert (await worker.ledger.Capture(make_capture("k"))).entry.amount == usd("0.00225")
