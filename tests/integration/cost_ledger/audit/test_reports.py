import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import grpc
import pytest

from integration.cost_ledger.audit.auditor import as_superuser, roll_up, verified
from integration.cost_ledger.builders import make_price, make_record, make_subject, make_usage
from integration.cost_ledger.running_ledger import Client, RunningLedger
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium_kit.metering import Dimension
from podium_kit.rpc.identity import Scope
from podium_kit.wire import timestamp_to_proto
from podium_kit.wire.values import dimension_to_proto

NOW = datetime.now(UTC).replace(microsecond=0)
RECORDS = 60
WINDOWS = 40


def at(hours: float) -> datetime:
    return NOW - timedelta(hours=hours)


async def total(client: Client, **asked: object) -> tuple[Decimal, int, Decimal]:
    reply = await client.ledger.ReportSpend(pb.ReportSpendRequest(page_size=1000, **asked))  # type: ignore[arg-type]
    amount = sum((Decimal(m.amount) for row in reply.rows for m in row.amounts), Decimal(0))
    tokens = sum((Decimal(q.amount) for row in reply.rows for q in row.quantities), Decimal(0))
    return amount, sum(row.call_count for row in reply.rows), tokens


async def test_any_window_sums_to_the_calls_in_it(ledger: RunningLedger, worker: Client) -> None:
    chance = random.Random(20261031)
    posted: list[tuple[datetime, int]] = []
    for number in range(RECORDS):
        moment, tokens = at(chance.uniform(0, 120)), chance.randint(1, 1000)
        posted.append((moment, tokens))
        await worker.ledger.Record(
            make_record(
                usage=make_usage(output_text=tokens),
                subject=make_subject(tool=f"t{number % 3}", model=f"m{number % 2}"),
                occur_time=timestamp_to_proto(moment),
            )
        )
        if number == RECORDS // 2:
            await roll_up(ledger)
    groups = [
        [],
        [pb.SPEND_DIMENSION_DAY],
        [pb.SPEND_DIMENSION_TOOL, pb.SPEND_DIMENSION_MODEL],
        [pb.SPEND_DIMENSION_USER],
        [pb.SPEND_DIMENSION_DAY, pb.SPEND_DIMENSION_TEAM],
        [pb.SPEND_DIMENSION_HOUR, pb.SPEND_DIMENSION_TOOL],
        [pb.SPEND_DIMENSION_WEEK, pb.SPEND_DIMENSION_MODEL],
        [pb.SPEND_DIMENSION_WEEK, pb.SPEND_DIMENSION_USER],
    ]
    for _ in range(WINDOWS):
        start, end = sorted((at(chance.uniform(0, 130)), at(chance.uniform(0, 130))), reverse=False)
        if chance.random() < 0.3:
            start = start.replace(hour=0, minute=0, second=0)
        inside = [tokens for moment, tokens in posted if start <= moment < end]
        expected = Decimal(sum(inside)) / 100_000, len(inside), Decimal(sum(inside))
        assert expected == await total(
            worker,
            group_by=chance.choice(groups),
            start_time=timestamp_to_proto(start),
            end_time=timestamp_to_proto(end),
        )
    assert await verified(worker, page_size=1000) == []


async def test_the_platform_sees_every_tenant_and_nobody_else_does(
    ledger: RunningLedger, worker: Client
) -> None:
    for tenant in ("acme", "bravo"):
        await ledger.as_(tenant).ledger.Record(make_record(f"{tenant}-1"))
    request = pb.ReportSpendRequest(all_tenants=True, group_by=[pb.SPEND_DIMENSION_TENANT])
    reply = await ledger.admin().ledger.ReportSpend(request)
    assert [(row.values[0], row.amounts[0].amount) for row in reply.rows] == [
        ("acme", "0.00225"),
        ("bravo", "0.00225"),
    ]
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await ledger.as_("acme", Scope.TENANT_ADMIN).ledger.ReportSpend(request)
    assert rejected.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_a_sum_is_read_and_not_recomputed(ledger: RunningLedger, worker: Client) -> None:
    await worker.ledger.Record(make_record("one"))
    await roll_up(ledger)
    await as_superuser(ledger.database_url, "UPDATE rollup_day SET amount = 7")
    assert (await total(worker))[0] == 7


async def test_every_dimension_is_summed_exactly(ledger: RunningLedger, worker: Client) -> None:
    used = {name: f"123456789.{number:012}" for number, name in enumerate(Dimension, 1)}
    usage = make_usage(**{name.value: amount for name, amount in used.items()})
    currencies = ("USD", "EUR")
    for code in currencies:
        spec = make_price(f"all/{code}", dict.fromkeys(used, ("1", "1")), currency_code=code)
        await ledger.admin().prices.CreatePrices(prices_pb.CreatePricesRequest(specs=[spec]))
        await worker.ledger.Record(make_record(sku=f"all/{code}", usage=usage))
    reply = await worker.ledger.ReportSpend(pb.ReportSpendRequest())
    (row,) = reply.rows
    assert {code.currency_code for code in row.amounts} == set(currencies)
    sums = {quantity.dimension: Decimal(quantity.amount) for quantity in row.quantities}
    assert sums == {dimension_to_proto(name): 2 * Decimal(amount) for name, amount in used.items()}
    assert await verified(worker, page_size=1000) == []


async def test_a_page_ends_with_a_whole_group(ledger: RunningLedger, worker: Client) -> None:
    for number in range(5):
        subject = make_subject(model=f"m{number}")
        usage = make_usage(output_text=1000 * (number + 1))
        await worker.ledger.Record(make_record(usage=usage, subject=subject))
    request = pb.ReportSpendRequest(group_by=[pb.SPEND_DIMENSION_MODEL], page_size=2)
    models = []
    while True:
        reply = await worker.ledger.ReportSpend(request)
        models += [row.values[0] for row in reply.rows]
        if not reply.next_page_token:
            break
        request.page_token = reply.next_page_token
    assert models == ["m4", "m3", "m2", "m1", "m0"]


async def test_spending_is_summed_by_hour_and_by_week_of_utc(
    ledger: RunningLedger, worker: Client
) -> None:
    monday = datetime(2026, 10, 5, tzinfo=UTC)
    for number, hours in enumerate((-1, 0, 0.5, 26)):
        moment = timestamp_to_proto(monday + timedelta(hours=hours))
        await worker.ledger.Record(make_record(f"k{number}", occur_time=moment))
    calls: dict[str, int] = {}
    for dimension in (pb.SPEND_DIMENSION_HOUR, pb.SPEND_DIMENSION_WEEK):
        report = await worker.ledger.ReportSpend(pb.ReportSpendRequest(group_by=[dimension]))
        calls |= {row.values[0]: row.call_count for row in report.rows}
    assert calls == {
        "2026-10-04T23:00Z": 1,
        "2026-10-05T00:00Z": 2,
        "2026-10-06T02:00Z": 1,
        "2026-09-28": 1,
        "2026-10-05": 3,
    }
    with pytest.raises(grpc.aio.AioRpcError) as error:
        week = pb.ReportSpendRequest(all_tenants=True, group_by=[pb.SPEND_DIMENSION_WEEK])
        await ledger.admin().ledger.ReportSpend(week)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
