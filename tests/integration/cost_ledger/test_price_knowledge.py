import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from integration.cost_ledger.builders import (
    GPT5,
    make_capture,
    make_price,
    make_record,
    make_reserve,
    quantities,
    usd,
)
from integration.cost_ledger.running_ledger import Client, RunningLedger
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium.ledger.v1 import hold_pb2
from podium.ledger.v1 import price_book_service_pb2 as pb
from podium_kit.rpc.identity import Scope

DEARER = {"input_fresh": ("2.5", "1000000"), "output_text": ("20", "1000000")}
JANUARY, MARCH = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)


def at(moment: datetime) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(moment)
    return stamp


async def create(client: Client, *specs: pb.PriceSpec, dry: bool = False) -> Any:
    request = pb.CreatePricesRequest(specs=specs, validate_only=dry)
    return await client.prices.CreatePrices(request)


async def effective(client: Client, sku: str = GPT5, **fields: Any) -> pb.Price | None:
    request = pb.GetEffectivePricesRequest(skus=[sku], **fields)
    return (await client.prices.GetEffectivePrices(request)).prices.get(sku)


async def entries_of(client: Client) -> list[hold_pb2.Entry]:
    return list((await client.ledger.ListEntries(ledger_pb.ListEntriesRequest())).entries)


async def test_a_price_learned_late_changes_no_posted_entry_and_prices_the_next(
    ledger: RunningLedger, worker: Client
) -> None:
    record = make_record("early")
    record.occur_time.FromDatetime(MARCH)
    await worker.ledger.Record(record)
    before = await entries_of(worker)
    late = make_price(components=DEARER, start_time=at(JANUARY))
    answer = await create(ledger.admin(), late)
    assert answer.differences[0].change == pb.PRICE_CHANGE_CHANGED
    assert await entries_of(worker) == before
    record.key = "later"
    assert (await worker.ledger.Record(record)).entry.amount == usd("0.0045")


async def test_one_can_ask_what_was_known_when(ledger: RunningLedger) -> None:
    admin = ledger.admin()
    old = await effective(admin)
    assert old is not None
    late = make_price(components=DEARER, start_time=at(JANUARY))
    new = (await create(admin, late)).prices[0]
    just_before = new.create_time.ToDatetime(tzinfo=UTC) - timedelta(microseconds=1)
    known_before = await effective(admin, at=at(MARCH), known_at=at(just_before))
    assert known_before == old
    assert (await effective(admin, at=at(MARCH), known_at=new.create_time)) == new
    assert (await effective(admin, at=at(MARCH))) == new
    assert await effective(admin, known_at=at(JANUARY)) is None
    request = pb.ListPricesRequest(known_at=at(just_before))
    assert list((await admin.prices.ListPrices(request)).prices) == [old]
    ends = {
        price.id: price.spec.end_time
        for price in (await admin.prices.ListPrices(pb.ListPricesRequest())).prices
    }
    assert ends[old.id] == late.start_time


async def test_a_correction_takes_the_place_of_the_price_that_was_wrong(
    ledger: RunningLedger, worker: Client
) -> None:
    admin = ledger.admin()
    wrong = await effective(admin)
    assert wrong is not None
    hold = (await worker.ledger.Reserve(make_reserve("admitted"))).hold
    right = make_price(components=DEARER, corrects_price_id=wrong.id)
    answer = await create(admin, right)
    assert answer.differences[0].change == pb.PRICE_CHANGE_CORRECTED
    assert answer.differences[0].before == wrong
    assert (await create(admin, right)).created_count == 0
    assert await effective(admin, at=at(JANUARY)) == answer.prices[0]
    # What was admitted at the wrong price is captured at it: the caller was told so.
    entry = (await worker.ledger.Capture(make_capture("admitted"))).entry
    assert (entry.price_version_id, entry.amount) == (hold.price_version_id, usd("0.00225"))
    assert (await worker.ledger.Record(make_record("new"))).entry.amount == usd("0.0045")
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await create(admin, make_price(corrects_price_id=wrong.id, currency_code="EUR"))
    assert rejected.value.code() is grpc.StatusCode.NOT_FOUND


async def test_an_import_says_what_each_price_changes_and_may_be_repeated(
    ledger: RunningLedger,
) -> None:
    admin = ledger.admin()
    specs = [make_price(), make_price(components=DEARER), make_price("tool/new", source="list")]
    for dry in (True, False):
        answer = await create(admin, *specs, dry=dry)
        changes = [difference.change for difference in answer.differences]
        assert changes == [
            pb.PRICE_CHANGE_UNCHANGED,
            pb.PRICE_CHANGE_CHANGED,
            pb.PRICE_CHANGE_NEW,
        ]
        before = answer.differences[1].before.spec.components[0].unit_price
        assert (answer.created_count, before) == (2, "1.25")
    again = await create(admin, *specs[1:])
    assert again.created_count == 0


async def test_a_class_of_service_is_priced_by_its_own_price_alone(
    ledger: RunningLedger, worker: Client
) -> None:
    half = {"input_fresh": ("0.625", "1000000"), "output_text": ("5", "1000000")}
    await create(ledger.admin(), make_price(components=half, service_class="batch"))
    hold = (await worker.ledger.Reserve(make_reserve("k", service_class="batch"))).hold
    assert (hold.amount, hold.service_class) == (usd("0.005625"), "batch")
    assert (await worker.ledger.Capture(make_capture("k"))).entry.amount == usd("0.001125")
    record = make_record("r", service_class="batch")
    assert (await worker.ledger.Record(record)).entry.amount == usd("0.001125")
    rejection = (await worker.ledger.Reserve(make_reserve("p", service_class="priority"))).rejection
    assert rejection.reason == hold_pb2.REJECTION_REASON_UNKNOWN_PRICE
    # An unpriced hold of a class is captured at the price of that class once it is known.
    admitted = {"unknown_price": hold_pb2.UNKNOWN_PRICE_POLICY_ADMIT, "service_class": "flex"}
    await worker.ledger.Reserve(make_reserve("f", **admitted))
    await create(ledger.admin(), make_price(components=DEARER, service_class="flex"))
    assert (await worker.ledger.Capture(make_capture("f"))).entry.amount == usd("0.0045")


async def test_a_call_that_another_class_answered_costs_the_price_of_that_class(
    ledger: RunningLedger, worker: Client
) -> None:
    half = {"input_fresh": ("0.625", "1000000"), "output_text": ("5", "1000000")}
    await create(ledger.admin(), make_price(components=half, service_class="flex"))
    for served, amount in (("flex", "0.001125"), ("priority", "0.00225"), ("", "0.00225")):
        await worker.ledger.Reserve(make_reserve(f"k-{served}"))
        capture = make_capture(f"k-{served}")
        capture.usage.service_class = served
        entry = (await worker.ledger.Capture(capture)).entry
        assert entry.amount == usd(amount)
        assert entry.service_class == ("flex" if served == "flex" else "")
        # The same capture again is the same entry.
        assert (await worker.ledger.Capture(capture)).entry == entry


async def test_a_region_has_its_own_price_or_that_of_every_region(
    ledger: RunningLedger, worker: Client
) -> None:
    await create(ledger.admin(), make_price(components=DEARER, region="eu"))
    for region, amount in (("eu", "0.0045"), ("us", "0.00225"), ("", "0.00225")):
        record = make_record(f"k{region}", region=region)
        assert (await worker.ledger.Record(record)).entry.amount == usd(amount)


async def test_bands_and_hours_survive_the_database_and_price_a_call(
    ledger: RunningLedger, worker: Client
) -> None:
    price = make_price("own/m", {"output_text": ("1", "1000000")})
    band, peak = price.components.add(), price.components.add()
    price.components[0].band.until_tokens = 1000
    band.CopyFrom(price.components[0])
    band.unit_price = "3"
    band.band.CopyFrom(pb.TokenBand(from_tokens=1000))
    peak.CopyFrom(price.components[0])
    peak.unit_price = "2"
    peak.hours.CopyFrom(pb.WeeklyHours(weekdays=[pb.WEEKDAY_MONDAY], start="08:30", end="16:30"))
    admin = ledger.as_("acme", Scope.TENANT_ADMIN)
    stored = (await create(admin, price)).prices[0]
    assert list(stored.spec.components) == list(price.components)
    assert (await create(admin, price)).created_count == 0
    monday = datetime(2026, 3, 2, 9, tzinfo=UTC)
    for number, (prompt, moment, amount) in enumerate(
        [
            (999, monday, "0.002"),
            (999, monday + timedelta(days=1), "0.001"),
            (1000, monday, "0.003"),
        ]
    ):
        record = make_record(f"k{number}", sku="own/m")
        del record.usage.quantities[:]
        record.usage.quantities.extend(quantities(input_fresh=prompt, output_text=1000))
        record.occur_time.FromDatetime(moment)
        assert (await worker.ledger.Record(record)).entry.amount == usd(amount)


async def test_authors_at_the_same_time_never_make_prices_overlap(ledger: RunningLedger) -> None:
    admin = ledger.admin()
    specs = [
        make_price("tool/x", {"call": (str(n + 1), "1")}, start_time=at(JANUARY)) for n in range(8)
    ]
    answers = await asyncio.gather(*(create(admin, s) for s in specs), return_exceptions=True)
    assert sum(not isinstance(answer, BaseException) for answer in answers) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE price_version SET currency = 'EUR'",
        "UPDATE price_validity SET valid = tstzrange(NULL, now())",
        "DELETE FROM price_validity",
        "TRUNCATE price_validity",
        "INSERT INTO price_validity SELECT * FROM price_validity",
    ],
)
async def test_the_history_of_prices_cannot_be_rewritten(
    ledger: RunningLedger, statement: str
) -> None:
    connection = await asyncpg.connect(ledger.database_url.replace("+asyncpg", ""))
    try:
        with pytest.raises(asyncpg.PostgresError):
            await connection.execute(statement)
    finally:
        await connection.close()
