"""Where a topic ends."""

from collections.abc import Mapping, Sequence

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaTimeoutError

POLL_MS = 500
# A minute.
SILENT_POLLS_MAX = 120


def end_offsets(
    consumer: KafkaConsumer, partitions: Sequence[TopicPartition]
) -> Mapping[TopicPartition, int]:
    """The next offset of each partition. Takes the consumer's assignment and positions.

    Some brokers, the embedded one among them, report the end of the first record of their
    last batch; so that batch is read, and where it really ends is the answer. Raises KafkaError,
    also when a broker says that it has the batch and does not give it.
    """
    reported: Mapping[TopicPartition, int] = consumer.end_offsets(partitions)
    starts = consumer.beginning_offsets(partitions)
    consumer.assign(partitions)
    for place, end in reported.items():
        consumer.seek(place, max(starts[place], end - 1))
    silent = 0
    while awaited := [place for place, end in reported.items() if consumer.position(place) < end]:
        silent += not consumer.poll(timeout_ms=POLL_MS)
        if silent >= SILENT_POLLS_MAX:
            names = ", ".join(f"{place.topic}/{place.partition}" for place in awaited)
            raise KafkaTimeoutError(
                f"the last records of {names} did not come; start their brokers"
            )
    # A batch longer than one poll gives is drained from memory.
    while consumer.poll(timeout_ms=0):
        pass
    return {place: consumer.position(place) for place in partitions}
