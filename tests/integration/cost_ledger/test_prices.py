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


async def effective(client: Client, sku: str = GPT5, **fields: Any) -> Any:
    request = pb.GetEffectivePricesRequest(skus=[sku, "unknown/sku"], **fields)
    prices = (await client.prices.GetEffectivePrices(request)).prices
    assert set(prices) <= {sku}
    return prices.get(sku)


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
    past = await effective(admin, at=at(before))
    assert past.id == old.id
    assert past.spec.end_time == new.spec.start_time


async def test_prices_of_one_request_follow_each_other_and_leave_other_keys_alone(
    ledger: RunningLedger,
) -> None:
    admin = ledger.admin()
    later = datetime.now(UTC) + timedelta(days=30)
    now, then, own, other = (
        await create(
            admin,
            make_price("tool/x", {"call": ("1", "1")}),
            make_price("tool/x", {"call": ("2", "1")}, start_time=at(later)),
            make_price("tool/x", {"call": ("3", "1")}, tenant="zeta"),
            make_price("tool/y", {"call": ("4", "1")}),
        )
    ).prices
    assert (await effective(admin, "tool/x")).id == now.id
    assert (await effective(admin, "tool/x", at=at(later))).id == then.id
    assert (await effective(ledger.as_("zeta"), "tool/x")).id == own.id
    assert (await effective(admin, "tool/y")).id == other.id


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


JANUARY, MARCH = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)


async def test_a_price_learned_late_changes_no_posted_entry_and_prices_the_next(
    ledger: RunningLedger, worker: Client
) -> None:
    record = make_record("early")
    record.occur_time.FromDatetime(MARCH)
    await worker.ledger.Record(record)
    before = await worker.entries()
    late = make_price(components=DEARER, start_time=at(JANUARY))
    answer = await create(ledger.admin(), late)
    assert answer.differences[0].change == pb.PRICE_CHANGE_CHANGED
    assert await worker.entries() == before
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


OWN = "own/translate"


async def delete(client: Client, *ids: str, tenant: str = "") -> list[str]:
    request = pb.DeletePricesRequest(ids=ids, tenant=tenant)
    return [price.spec.sku for price in (await client.prices.DeletePrices(request)).prices]


async def rejection(client: Client, *ids: str, tenant: str = "") -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await delete(client, *ids, tenant=tenant)
    return caught.value


async def test_a_price_that_nothing_used_is_unknown_again(ledger: RunningLedger) -> None:
    admin = ledger.admin()
    made = (await create(admin, make_price("tool/x"), make_price("tool/y"))).prices
    before = datetime.now(UTC)
    assert await delete(admin, *(price.id for price in made)) == ["tool/x", "tool/y"]
    assert await listed(admin, "tool/") == []
    # The book can still be read as it was known.
    request = pb.ListPricesRequest(sku_prefix="tool/", known_at=at(before))
    assert len((await admin.prices.ListPrices(request)).prices) == 2
    assert (await rejection(admin, made[0].id)).code() is grpc.StatusCode.NOT_FOUND
    again = await create(admin, make_price("tool/x"))
    assert again.created_count == 1


async def test_what_it_ended_holds_on_until_the_next(ledger: RunningLedger) -> None:
    admin, now = ledger.admin(), datetime.now(UTC)
    first = await effective(admin)
    soon, later = now + timedelta(days=1), now + timedelta(days=9)
    wrong, right = [
        (await create(admin, make_price(components=DEARER, start_time=at(moment)))).prices[0]
        for moment in (soon, later)
    ]
    assert await delete(admin, wrong.id) == [GPT5]
    assert (await effective(admin, at=at(soon + timedelta(hours=1)))).id == first.id
    assert (await effective(admin, at=at(later + timedelta(hours=1)))).id == right.id


async def test_what_a_call_was_charged_or_held_by_stays(
    ledger: RunningLedger, worker: Client
) -> None:
    admin = ledger.admin()
    free = (await create(admin, make_price("tool/x"))).prices[0]
    await worker.ledger.Reserve(make_reserve("held"))
    used = await effective(admin)
    error = await rejection(admin, free.id, used.id)
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert f"the price {used.id} of {GPT5} was used" in str(error.details())
    assert "corrects_price_id" in str(error.details())
    # All or none.
    assert [price.id for price in await listed(admin, "tool/")] == [free.id]
    assert (await worker.ledger.Record(make_record("k"))).entry.amount == usd("0.00225")


async def test_a_use_by_any_tenant_counts(ledger: RunningLedger) -> None:
    await ledger.as_("zeta").ledger.Record(make_record("k"))
    used = await effective(ledger.admin())
    assert "was used" in str((await rejection(ledger.admin(), used.id)).details())


async def test_a_tenant_deletes_its_own_prices_alone(ledger: RunningLedger) -> None:
    acme, zeta = (ledger.as_(name, Scope.TENANT_ADMIN) for name in ("acme", "zeta"))
    own = (await create(acme, make_price(OWN))).prices[0]
    everyones = await effective(acme)
    denied = grpc.StatusCode.PERMISSION_DENIED
    assert (await rejection(acme, everyones.id)).code() is denied
    assert (await rejection(zeta, own.id)).code() is grpc.StatusCode.NOT_FOUND
    assert (await rejection(zeta, own.id, tenant="acme")).code() is denied
    assert await delete(acme, own.id) == [OWN]


async def test_a_platforms_admin_names_the_tenant_that_pays(ledger: RunningLedger) -> None:
    admin = ledger.admin()
    own = (await create(admin, make_price(GPT5, DEARER, tenant="zeta"))).prices[0]
    assert (await rejection(admin, own.id)).code() is grpc.StatusCode.NOT_FOUND
    assert await delete(admin, own.id, tenant="zeta") == [GPT5]


FREE = {"output_text": ("0", "1")}


@pytest.mark.parametrize(
    "spec",
    [
        make_price(GPT5, FREE),
        make_price(GPT5, FREE, tenant="acme"),
        make_price("tool/yet-without-a-price", FREE, tenant="acme"),
        make_price("own/translate", FREE, tenant="zeta"),
    ],
)
async def test_a_tenant_prices_nothing_that_is_not_its_own(
    ledger: RunningLedger, worker: Client, spec: pb.PriceSpec
) -> None:
    admin = ledger.as_("acme", Scope.TENANT_ADMIN)
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await create(admin, make_price("own/translate"), spec)
    assert rejected.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert f"{spec.sku!r} is the operator's" in (rejected.value.details() or "")
    assert "own/" in (rejected.value.details() or "")
    listed = await admin.prices.ListPrices(pb.ListPricesRequest())
    assert {price.spec.sku for price in listed.prices} == {GPT5}
    assert (await worker.ledger.Record(make_record("k"))).entry.amount == usd("0.00225")


async def test_the_same_own_sku_of_two_tenants_has_two_prices(ledger: RunningLedger) -> None:
    amounts = {"acme": "1", "zeta": "2"}
    for tenant, price in amounts.items():
        admin = ledger.as_(tenant, Scope.TENANT_ADMIN)
        spec = make_price("own/translate", {"output_text": (price, "1000")})
        (created,) = (await create(admin, spec)).prices
        # What is listed can be imported again.
        assert (await create(admin, created.spec)).created_count == 0
    for tenant, price in amounts.items():
        record = make_record("k", sku="own/translate")
        entry = (await ledger.as_(tenant).ledger.Record(record)).entry
        assert entry.amount == usd(f"0.{price}")
