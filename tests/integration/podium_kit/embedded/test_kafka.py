from collections.abc import AsyncIterator
from pathlib import Path

import crc32c
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.ports import free_port


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[EmbeddedKafka]:
    broker = EmbeddedKafka(free_port(), log_path=tmp_path / "kafka.log")
    await broker.start()
    yield broker
    await broker.stop()


def produce(broker: EmbeddedKafka, topic: str, values: list[bytes], partition: int = 0) -> None:
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, acks="all", enable_idempotence=True
    )
    for value in values:
        producer.send(topic, value, partition=partition).get(timeout=10)
    producer.close()


def consume(broker: EmbeddedKafka, topic: str, count: int, partition: int = 0) -> list[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
    assignment = TopicPartition(topic, partition)
    consumer.assign([assignment])
    consumer.seek_to_beginning(assignment)
    values: list[bytes] = []
    while len(values) < count:
        for records in consumer.poll(timeout_ms=500).values():
            values += [record.value for record in records]
    consumer.close()
    return values


async def test_records_come_back_in_order_with_their_checksums(broker: EmbeddedKafka) -> None:
    await broker.create_topics({"trajectories": 1})
    values = [f"turn {number}".encode() * 1000 for number in range(20)]
    produce(broker, "trajectories", values)
    received = consume(broker, "trajectories", len(values))
    assert [crc32c.crc32c(value) for value in received] == [crc32c.crc32c(v) for v in values]


async def test_a_topic_has_the_wanted_number_of_partitions(broker: EmbeddedKafka) -> None:
    await broker.create_topics({"trajectories": 3})
    produce(broker, "trajectories", [b"last"], partition=2)
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
    assert consumer.partitions_for_topic("trajectories") == {0, 1, 2}
    consumer.close()


async def test_creating_a_topic_twice_keeps_its_records(broker: EmbeddedKafka) -> None:
    await broker.create_topics({"trajectories": 1})
    produce(broker, "trajectories", [b"kept"])
    await broker.create_topics({"trajectories": 1})
    assert consume(broker, "trajectories", 1) == [b"kept"]
