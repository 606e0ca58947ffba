"""A record that a topic will never take is told from those that it takes."""

import uuid

from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.stream import KafkaSettings, Place, Rejection, StreamRecord
from podium_kit.stream.clients import Producer

TOO_LARGE = 5 * 1024 * 1024


def record(key: str, size: int) -> StreamRecord:
    return StreamRecord(key, b"x" * size, {})


async def test_one_among_many_is_rejected_alone(kafka: EmbeddedKafka) -> None:
    topic = f"rejected-{uuid.uuid4().hex[:8]}"
    await kafka.create_topics({topic: 2})
    producer = Producer(KafkaSettings(bootstrap=kafka.bootstrap_servers))
    try:
        outcomes = await producer.send(
            topic, [record("a", 10), record("b", TOO_LARGE), record("c", 10)]
        )
        again = await producer.send(topic, [record("d", 10)])
    finally:
        await producer.close()
    assert [type(each) for each in outcomes] == [Place, Rejection, Place]
    assert isinstance(outcomes[1], Rejection)
    assert "MessageSizeTooLarge" in outcomes[1].reason
    assert [type(each) for each in again] == [Place]
