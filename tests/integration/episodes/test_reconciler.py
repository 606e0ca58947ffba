import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest
import pytest_asyncio
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from episodes.publication import reconciler
from episodes.publication.reconciler import Findings, Reconciler
from episodes.publication.records import trajectory_record
from episodes.publication.relay import Relay
from episodes.publication.store_outbox import OutboxStore
from episodes.publication.topic_kafka import TopicReader
from integration.episodes.platform_under_test import new_id
from integration.episodes.topic import read_topic
from podium.episodes.v1 import trajectory_pb2
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.stream import KafkaSettings
from podium_kit.stream.clients import Producer


class BusyTopic(TopicReader):
    """A topic that grows right after its ends were read, as a topic in use does."""

    grow: Callable[[], None]

    def end_offsets(self) -> dict[int, int]:
        ends = super().end_offsets()
        self.grow()
        return ends


@dataclass
class Stream:
    outbox: OutboxStore
    relay: Relay
    topic: BusyTopic
    reconciler: Reconciler

    async def moved(self, kafka: EmbeddedKafka) -> None:
        name = f"empty-{new_id()[-8:]}"
        await kafka.create_topics({name: 1})
        self.topic._topic = self.relay._topic = name

    async def publish(self, count: int = 1) -> None:
        for _ in range(count):
            trajectory = trajectory_pb2.Trajectory(episode_id=new_id(), tenant="acme")
            trajectory.group_id = trajectory.episode_id
            await self.outbox.add(trajectory_record(trajectory))
        await self.relay.relay()


@pytest_asyncio.fixture
async def stream(engine: AsyncEngine, kafka: EmbeddedKafka) -> AsyncIterator[Stream]:
    name = f"busy-{new_id()[-8:]}"
    await kafka.create_topics({name: 1})
    settings = KafkaSettings(bootstrap=kafka.bootstrap_servers)
    outbox, producer = OutboxStore(engine), Producer(settings)
    topic = BusyTopic(settings, name)
    relay = Relay(outbox, producer, name)
    made = Stream(outbox, relay, topic, Reconciler(outbox, topic))
    loop = asyncio.get_running_loop()
    topic.grow = lambda: asyncio.run_coroutine_threadsafe(made.publish(), loop).result(30)
    yield made
    await producer.close()


async def test_what_is_published_during_a_reconciliation_does_not_look_lost(
    stream: Stream, kafka: EmbeddedKafka
) -> None:
    await stream.publish()
    findings = [await stream.reconciler.reconcile() for _ in range(3)]
    assert findings == [Findings(present=2, lost=0)] * 3
    await stream.relay.relay()
    records = await read_topic(kafka.bootstrap_servers, stream.topic._topic, 7, "acme")
    ids = [record.trajectory.episode_id for record in records]
    assert len(ids) == len(set(ids)) == 7


async def test_a_batch_of_records_is_found_whole(stream: Stream) -> None:
    """The embedded broker reports the end of a batch's first record as the topic's end."""
    stream.topic.grow = lambda: None
    await stream.publish(count=20)
    assert await stream.reconciler.reconcile() == Findings(present=20, lost=0)
    assert await stream.reconciler.reconcile() == Findings(present=0, lost=0)


async def test_more_records_than_a_batch_are_restored_to_an_empty_topic(
    stream: Stream, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.topic.grow = lambda: None
    await stream.publish(count=12)
    assert await stream.reconciler.reconcile() == Findings(present=12, lost=0)
    monkeypatch.setattr(reconciler, "BATCH", 5)
    await stream.moved(kafka)
    assert await stream.reconciler.reconcile() == Findings(present=0, lost=12)
    await stream.publish(count=1)
    assert await stream.reconciler.reconcile() == Findings(present=13, lost=0)
    records = await read_topic(kafka.bootstrap_servers, stream.topic._topic, 13, "acme")
    assert len({record.trajectory.episode_id for record in records}) == 13


async def test_a_record_whose_place_no_broker_said_is_found(
    stream: Stream, engine: AsyncEngine
) -> None:
    """As after a broker that died between a record and its acknowledgement."""
    stream.topic.grow = lambda: None
    await stream.publish(count=3)
    async with engine.begin() as connection:
        newest = "(SELECT max(id) FROM outbox)"
        await connection.execute(text(f"UPDATE outbox SET record_offset = -1 WHERE id = {newest}"))
    assert await stream.reconciler.reconcile() == Findings(present=3, lost=0)
