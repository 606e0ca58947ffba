import asyncio

from kafka import KafkaConsumer, TopicPartition

from podium.episodes.v1 import trajectory_pb2 as pb


async def read_topic(
    bootstrap: str, topic: str, count: int, tenant: str
) -> list[pb.TrajectoryRecord]:
    async with asyncio.timeout(60):
        while True:
            records = await asyncio.to_thread(_read, bootstrap, topic)
            found = [record for record in records if _tenant(record) == tenant]
            if len(found) >= count:
                return found
            await asyncio.sleep(0.1)


def _tenant(record: pb.TrajectoryRecord) -> str:
    return str(getattr(record, record.WhichOneof("record") or "").tenant)


def _read(bootstrap: str, topic: str) -> list[pb.TrajectoryRecord]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    try:
        numbers = consumer.partitions_for_topic(topic) or set()
        partitions = [TopicPartition(topic, number) for number in sorted(numbers)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        found: list[pb.TrajectoryRecord] = []
        while any(consumer.position(place) < end for place, end in ends.items()):
            for records in consumer.poll(timeout_ms=500).values():
                found += [pb.TrajectoryRecord.FromString(record.value) for record in records]
        return found
    finally:
        consumer.close()
