"""Reads the trajectory topic back, partition by partition, outside any consumer group."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kafka import KafkaConsumer, TopicPartition

from podium_kit.stream import KafkaSettings
from podium_kit.stream.clients import end_offsets, polled_up_to

FETCH_BYTES_MAX = 4 * 1024 * 1024


class TopicReader:
    def __init__(self, kafka: KafkaSettings, topic: str) -> None:
        self._kafka = kafka
        self._topic = topic

    def end_offsets(self) -> dict[int, int]:
        """Returns the next offset of each partition; empty when there is no topic."""
        with self._consumer() as consumer:
            ends = end_offsets(consumer, self._partitions(consumer))
            return {partition.partition: offset for partition, offset in ends.items()}

    def digests(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> dict[str, str]:
        with self._consumer() as consumer:
            found: dict[str, str] = {}
            for number, start in starts.items():
                if start < ends.get(number, 0):
                    partition = TopicPartition(self._topic, number)
                    found.update(_read(consumer, partition, start, ends[number]))
            return found

    def _partitions(self, consumer: KafkaConsumer) -> list[TopicPartition]:
        numbers = consumer.partitions_for_topic(self._topic) or set()
        return [TopicPartition(self._topic, number) for number in sorted(numbers)]

    @contextmanager
    def _consumer(self) -> Iterator[KafkaConsumer]:
        consumer = KafkaConsumer(
            **self._kafka.reading(),
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=FETCH_BYTES_MAX,
        )
        try:
            yield consumer
        finally:
            consumer.close()


def _read(
    consumer: KafkaConsumer, partition: TopicPartition, start: int, end: int
) -> dict[str, str]:
    consumer.assign([partition])
    consumer.seek(partition, start)
    found: dict[str, str] = {}
    for batches in polled_up_to(consumer, {partition: end}):
        for record in batches[partition]:
            headers = {name: value.decode() for name, value in record.headers}
            found[headers.get("record-id", "")] = headers.get("digest", "")
    return found
