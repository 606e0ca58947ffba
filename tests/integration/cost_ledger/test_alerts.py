import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import grpc
import pytest
import pytest_asyncio
from kafka import KafkaConsumer, TopicPartition

from embedded_servers import Database
from integration.cost_ledger.builders import (
    make_capture,
    make_price,
    make_record,
    make_reserve,
    usd,
)
from integration.cost_ledger.running_ledger import Client, RunningLedger, running_ledger
from podium.ledger.v1 import alert_pb2
from podium.ledger.v1 import budget_service_pb2 as pb
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.ports import free_port
from podium_kit.rpc.identity import Scope

TOPIC = "ledger.alerts.v1"
CAPTURE = "0.00225"


@pytest_asyncio.fixture(scope="module")
async def kafka(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EmbeddedKafka]:
    server = EmbeddedKafka(free_port(), log_path=tmp_path_factory.mktemp("kafka") / "kafka.log")
    await server.start()
    await server.create_topics({TOPIC: 1})
    yield server
    await server.stop()


async def alerts_of(client: Client, **fields: Any) -> list[alert_pb2.BudgetAlert]:
    return list((await client.budgets.ListAlerts(pb.ListAlertsRequest(**fields))).alerts)


async def spend(client: Client, count: int, prefix: str = "k") -> None:
    """Captures at the same time, each of $0.00225."""
    keys = [f"{prefix}{number}" for number in range(count)]
    await asyncio.gather(*(client.ledger.Reserve(make_reserve(key)) for key in keys))
    await asyncio.gather(*(client.ledger.Capture(make_capture(key)) for key in keys))


async def published(client: Client, count: int) -> list[alert_pb2.BudgetAlert]:
    async with asyncio.timeout(30):
        while True:
            alerts = await alerts_of(client)
            if len(alerts) == count and all(each.HasField("publish_time") for each in alerts):
                return alerts
            await asyncio.sleep(0.05)


def on_topic(kafka: EmbeddedKafka, budget_prefix: str) -> list[alert_pb2.BudgetAlert]:
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, enable_auto_commit=False)
    try:
        place = TopicPartition(TOPIC, 0)
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        end = consumer.end_offsets([place])[place]
        found = []
        while consumer.position(place) < end:
            for records in consumer.poll(timeout_ms=500).values():
                found += [alert_pb2.BudgetAlert.FromString(record.value) for record in records]
        return [alert for alert in found if alert.budget_id.startswith(budget_prefix)]
    finally:
        consumer.close()


async def test_32_concurrent_captures_raise_each_alert_once(worker: Client, admin: Client) -> None:
    limits = ["0.01", "0.03", "0.05", "0.5"]
    await admin.add_budget(soft_limits=[usd(limit) for limit in limits])
    await spend(worker, 32)
    alerts = await alerts_of(worker)
    assert Counter(each.soft_limit.amount for each in alerts) == Counter(limits[:3])
    assert len({each.id for each in alerts}) == 3
    for alert in alerts:
        assert float(alert.posted.amount) >= float(alert.soft_limit.amount)
        assert (alert.hard_limit, alert.tenant, alert.budget_id) == (usd("1"), "acme", "cap")
        assert not alert.HasField("publish_time")


async def test_held_money_raises_no_alert(worker: Client, admin: Client) -> None:
    await admin.add_budget(soft_limits=[usd("0.01")])
    await worker.ledger.Reserve(make_reserve("k"))
    assert not await alerts_of(worker)


async def test_a_new_window_alerts_anew_and_the_old_one_does_not(
    worker: Client, admin: Client
) -> None:
    await admin.add_budget(window=pb.BUDGET_WINDOW_DAY, soft_limits=[usd("0.002")])
    for number, days in enumerate((0, 1, 1, 0, 2)):
        record = make_record(f"k{number}")
        record.occur_time.FromDatetime(datetime.now(UTC) - timedelta(days=days))
        await worker.ledger.Record(record)
    alerts = await alerts_of(worker)
    starts = [alert.window_start.ToDatetime().date() for alert in alerts]
    assert len(starts) == len(set(starts)) == 3


async def test_a_rolling_budget_counts_the_time_just_past_and_alerts_once_in_its_length(
    worker: Client, admin: Client
) -> None:
    await admin.add_budget(
        window=pb.BUDGET_WINDOW_ROLLING,
        rolling_length=timedelta(days=31),
        soft_limits=[usd("0.004")],
    )
    # The middle of a period, so that all of them are in the same one.
    length_s = 31 * 86_400
    middle = (datetime.now(UTC).timestamp() // length_s - 1) * length_s + length_s / 2
    for number in range(4):
        record = make_record(f"k{number}")
        moment = datetime.fromtimestamp(middle, UTC) + timedelta(hours=number)
        record.occur_time.FromDatetime(moment)
        await worker.ledger.Record(record)
    (alert,) = await alerts_of(worker)
    # The second of them passed the limit: a rolling window adds its buckets up.
    assert alert.posted == usd("0.0045")


async def test_alerts_are_listed_newest_first_page_by_page_and_by_budget(
    worker: Client, admin: Client
) -> None:
    for name in ("a", "b"):
        await admin.add_budget(name, soft_limits=[usd("0.002"), usd("0.004")])
    await spend(worker, 1, "x")
    await spend(worker, 1, "y")
    every: list[alert_pb2.BudgetAlert] = []
    token = ""
    while True:
        request = pb.ListAlertsRequest(page_size=3, page_token=token)
        page = await worker.budgets.ListAlerts(request)
        every.extend(page.alerts)
        token = page.next_page_token
        if not token:
            break
    assert [each.soft_limit.amount for each in every] == ["0.004", "0.004", "0.002", "0.002"]
    only_b = [each for each in every if each.budget_id == "b"]
    assert await alerts_of(worker, budget_id="b") == only_b
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await alerts_of(worker, page_token="made-up")
    assert rejected.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_tenant_sees_its_own_alerts_alone(
    ledger: RunningLedger, worker: Client, admin: Client
) -> None:
    await admin.add_budget(soft_limits=[usd("0.001")])
    await spend(worker, 1)
    assert len(await alerts_of(worker)) == 1
    assert not await alerts_of(ledger.as_("zeta", Scope.TENANT_ADMIN))


async def test_what_was_owed_while_the_broker_was_away_is_published_once_it_is_back(
    database: Database, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    database_url = await database("cost_ledger")
    soft = [usd("0.002"), usd("0.004")]
    nobody = f"127.0.0.1:{free_port()}"
    async with running_ledger(database_url, tmp_path, kafka={"bootstrap": nobody}) as ledger:
        prices = prices_pb.CreatePricesRequest(specs=[make_price()])
        await ledger.admin().prices.CreatePrices(prices)
        await ledger.as_("acme", Scope.TENANT_ADMIN).add_budget("owed", soft_limits=soft)
        await spend(ledger.as_(), 4)
        assert not any(each.HasField("publish_time") for each in await alerts_of(ledger.as_()))
    back = kafka.bootstrap_servers
    async with running_ledger(database_url, tmp_path, kafka={"bootstrap": back}) as ledger:
        alerts = await published(ledger.as_(), 2)
        connection = await asyncpg.connect(database_url.replace("+asyncpg", ""))
        await connection.execute("UPDATE budget_alert SET publish_time = NULL")
        await connection.close()
        again = await published(ledger.as_(), 2)
    records = await asyncio.to_thread(on_topic, kafka, "owed")
    assert len(records) == 4
    ids = {alert.id for alert in alerts}
    assert {record.id for record in records} == ids == {alert.id for alert in again}
    by_id = {record.id: record for record in records}
    for alert in alerts:
        alert.ClearField("publish_time")
        assert by_id[alert.id] == alert


async def test_two_replicas_publish_each_alert_once(
    database: Database, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    database_url = await database("cost_ledger")
    settings: dict[str, Any] = {"kafka": {"bootstrap": kafka.bootstrap_servers}}
    async with (
        running_ledger(database_url, tmp_path, **settings) as one,
        running_ledger(database_url, tmp_path, **settings) as other,
    ):
        await one.admin().prices.CreatePrices(prices_pb.CreatePricesRequest(specs=[make_price()]))
        admin = one.as_("acme", Scope.TENANT_ADMIN)
        for number in range(20):
            await admin.add_budget(f"twin{number}", soft_limits=[usd("0.002")])
        await asyncio.gather(spend(one.as_(), 16, "one"), spend(other.as_(), 16, "other"))
        alerts = await published(one.as_(), 20)
    records = await asyncio.to_thread(on_topic, kafka, "twin")
    assert sorted(each.id for each in records) == sorted(each.id for each in alerts)
