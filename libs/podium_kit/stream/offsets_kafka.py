"""Where a topic ends."""

from collections.abc import Mapping, Sequence

from kafka import KafkaConsumer, TopicPartition

POLL_MS = 500


def end_offsets(
    consumer: KafkaConsumer, partitions: Sequence[TopicPartition]
) -> Mapping[TopicPartition, int]:
    """The next offset of each partition. Takes the consumer's assignment and positions.

    Some brokers, the embedded one among them, report the end of the first record of their
    last batch; so that batch is read, and where it really ends is the answer.
    """
    reported: Mapping[TopicPartition, int] = consumer.end_offsets(partitions)
    starts = consumer.beginning_offsets(partitions)
    consumer.assign(partitions)
    for place, end in reported.items():
        consumer.seek(place, max(starts[place], end - 1))
    while any(consumer.position(place) < end for place, end in reported.items()):
        consumer.poll(timeout_ms=POLL_MS)
    # A batch longer than one poll gives is drained from memory.
    while consumer.poll(timeout_ms=0):
        pass
    return {place: consumer.position(place) for place in partitions}
