from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaTimeoutError

POLL_MS = 500
# A minute.
SILENT_POLLS_MAX = 120
# Three seconds: so long a broker may take that has something to give.
PATIENT_POLLS = 6


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
    for _ in polled_up_to(consumer, reported):
        pass
    # A batch longer than one poll gives is drained from memory.
    while consumer.poll(timeout_ms=0):
        pass
    return {place: max(reported[place], consumer.position(place)) for place in partitions}


def polled_up_to(
    consumer: KafkaConsumer, ends: Mapping[TopicPartition, int]
) -> Iterator[Mapping[TopicPartition, list[Any]]]:
    """Yields the records of the assigned consumer, poll by poll, until it is at the ends.

    The last offsets of a partition may hold no record: marks of transactions, or what compaction
    removed. Raises KafkaTimeoutError for brokers that do not answer.
    """
    left, silent = dict(ends), 0
    while left := {place: end for place, end in left.items() if consumer.position(place) < end}:
        if polled := consumer.poll(timeout_ms=POLL_MS):
            silent = 0
            yield polled
            continue
        silent += 1
        if silent % (2 * PATIENT_POLLS) == PATIENT_POLLS:
            ask_anew(consumer)
        elif silent % PATIENT_POLLS == 0:
            left = {place: end for place, end in left.items() if not gave_all(consumer, place, end)}
        if silent >= SILENT_POLLS_MAX:
            names = ", ".join(f"{place.topic}/{place.partition}" for place in left)
            raise KafkaTimeoutError(
                f"the last records of {names} did not come; start their brokers"
            )


def ask_anew(consumer: KafkaConsumer) -> None:
    """Forgets what brokers answered before, so that `gave_all` is about what they answer now."""
    positions = {place: consumer.position(place) for place in consumer.assignment()}
    consumer.assign([])
    consumer.assign(list(positions))
    for place, offset in positions.items():
        consumer.seek(place, offset)


def gave_all(consumer: KafkaConsumer, place: TopicPartition, end: int) -> bool:
    """True if the broker answered the question from the consumer's position on, which some polls
    have asked, and had no record up to the end."""
    return (consumer.highwater(place) or 0) >= end
