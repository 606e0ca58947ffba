"""Reads the trajectory topic by offset, in a reproducible order.

No consumer group decides where to continue: the trainer's checkpoint does, so a record
influences the weights exactly once. Partitions take turns, one record each, as far as the
log reached when they were last looked at. The same log gives the same order; that of a log
which grew meanwhile is kept for replay.
"""

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, OffsetOutOfRangeError

from podium_kit.stream import BrokerUnavailable, KafkaSettings, require_reachable
from podium_kit.stream.clients import ask_anew, end_offsets, gave_all
from podium_training.grpo.ending import Fault

log = logging.getLogger(__name__)

POLL_MS = 500
# Three seconds.
PATIENT_POLLS = 6
FETCH_BYTES_MAX = 4 * 1024 * 1024
# A minute.
SILENT_POLLS_MAX = 120
# Records held of a partition while another is awaited: as many as one poll gives at most.
HELD_MAX = 500
FIX = "restart with --skip-lost to continue without them"


class LogCut(Fault):
    """The log does not hold records that are to be read: most often, retention removed them.

    Or the topic was emptied, and what it gets from now on is not what was to come.
    """


@dataclass
class Position:
    """The position in the stream: the next offset of every partition, and the partition in turn."""

    offsets: dict[int, int]
    turn: int = 0


@dataclass(frozen=True)
class LogRecord:
    partition: int
    offset: int
    value: bytes
    key: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class LogReader:
    """Records from a position on, and the position after each.

    All methods raise BrokerUnavailable.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        topic: str,
        position: Position | None = None,
        *,
        skip_lost: bool = False,
    ) -> None:
        self._kafka = kafka
        with _answering(kafka):
            self._consumer, self._scout = _consumer(kafka), _consumer(kafka)
            numbers = sorted(self._consumer.partitions_for_topic(topic) or ())
        if not numbers:
            raise LogCut(f"there is no topic {topic} at {kafka.bootstrap}")
        self._places = [TopicPartition(topic, number) for number in numbers]
        self._consumer.assign(self._places)
        self.position = position or Position({})
        self._ends = self._ends_now()
        self.emptied = self._emptied()
        """Partitions that ended before what was read of them, and are read from their start."""
        if self.emptied and not skip_lost:
            raise self._cut_short()
        for partition in self.emptied:
            del self.position.offsets[partition]
        with _answering(kafka):
            starts = self._consumer.beginning_offsets(self._places)
        self.lost = self._lost(starts)
        """Records before the log's start that were not read, by partition."""
        if self.lost and not skip_lost:
            raise LogCut(f"retention removed records not read yet: {_message(self.lost)}; {FIX}")
        self._seek(starts)
        self.order: list[int] = []
        """Partition of each record taken, for replay."""
        self._silent_polls = 0
        self._fetched: dict[TopicPartition, list[LogRecord]] = {place: [] for place in self._places}

    def close(self) -> None:
        self._consumer.close()
        self._scout.close()

    def records(self, patience_s: float, stop: Event | None = None) -> Iterator[LogRecord]:
        """Records as they come; ends when none has come for so many seconds, or when stopped."""
        waited_since = time.monotonic()
        while time.monotonic() - waited_since < patience_s:
            if stop is not None and stop.is_set():
                return
            place = self._next()
            if place is None:
                self._reread()
                continue
            if self._fetched[place]:
                yield self._take(place)
            else:
                self._fetch(place)
            waited_since = time.monotonic()

    def records_again(self, order: Sequence[int]) -> Iterator[LogRecord]:
        """The next record of each partition named, as they were taken before.

        Raises LogCut when the log does not hold them.
        """
        self._check_holds(Counter(order))
        places = {place.partition: place for place in self._places}
        for partition in order:
            while not self._fetched[places[partition]]:
                if self.position.offsets[partition] >= self._ends[places[partition]]:
                    raise LogCut(f"the log ends too early; partition {partition} lacks records")
                self._fetch(places[partition])
            yield self._take(places[partition])

    def lag(self) -> int:
        ends = self._ends_now()
        return sum(end - self.position.offsets[place.partition] for place, end in ends.items())

    def _next(self) -> TopicPartition | None:
        """The next partition that has a record; None when all are read to their ends."""
        turn = self.position.turn % len(self._places)
        for place in self._places[turn:] + self._places[:turn]:
            if self.position.offsets[place.partition] < self._ends[place]:
                return place
        return None

    def _take(self, place: TopicPartition) -> LogRecord:
        record = self._fetched[place].pop(0)
        self.position.turn = (self._places.index(place) + 1) % len(self._places)
        self.position.offsets[place.partition] = record.offset + 1
        self.order.append(place.partition)
        return record

    def _fetch(self, awaited: TopicPartition) -> None:
        """Fetches from a log that has records; a broker that returns none for a minute is gone.

        What others give meanwhile is held, up to HELD_MAX records of each.
        """
        self._consumer.resume(*self._places)
        full = [place for place, held in self._fetched.items() if len(held) >= HELD_MAX]
        self._consumer.pause(*full)
        with _answering(self._kafka):
            try:
                polled = self._consumer.poll(timeout_ms=POLL_MS)
                reached = self._consumer.position(awaited)
            except OffsetOutOfRangeError as error:
                cause = "retention removed records while they were being read, or the topic was"
                raise LogCut(f"{cause} emptied or made anew; {FIX}") from error
        offsets, partition = self.position.offsets, awaited.partition
        if awaited in polled:
            self._silent_polls = 0
        elif not self._fetched[awaited] and reached is not None and reached > offsets[partition]:
            # Marks of transactions and what compaction removed have offsets, and are no records.
            offsets[partition] = reached
            self._silent_polls = 0
        elif not polled:
            self._silent_polls += 1
            self._pass_no_records(awaited)
        if self._silent_polls >= SILENT_POLLS_MAX:
            log.error(
                "partition %d gives no record from offset %d on, though it has some; start the"
                " broker that leads it",
                awaited.partition,
                self.position.offsets[awaited.partition],
            )
            raise BrokerUnavailable(self._kafka, TimeoutError())
        for source, fetched in polled.items():
            self._fetched[source] += map(_log_record, fetched)

    def _pass_no_records(self, awaited: TopicPartition) -> None:
        """Continues behind the last offsets of a partition, where its broker has no record."""
        if self._silent_polls % (2 * PATIENT_POLLS) == PATIENT_POLLS:
            ask_anew(self._consumer)
        elif self._silent_polls % PATIENT_POLLS == 0:
            end = self._ends[awaited]
            if gave_all(self._consumer, awaited, end):
                self._consumer.seek(awaited, end)
                self.position.offsets[awaited.partition] = end
                self._silent_polls = 0

    def _ends_now(self) -> dict[TopicPartition, int]:
        with _answering(self._kafka):
            return dict(end_offsets(self._scout, self._places))

    def _reread(self) -> None:
        self._ends = self._ends_now()
        if self._emptied():
            raise self._cut_short()
        if self._next() is None:
            time.sleep(POLL_MS / 1000)

    def _check_holds(self, wanted: Mapping[int, int]) -> None:
        ends = self._ends_now()
        there = {
            place.partition: end - self.position.offsets[place.partition]
            for place, end in ends.items()
        }
        missing = {p: count - there.get(p, 0) for p, count in wanted.items()}
        if short := {p: count for p, count in missing.items() if count > 0}:
            raise LogCut(f"the log ends too early; it lacks {_message(short)}")

    def _emptied(self) -> list[int]:
        ends = {place.partition: end for place, end in self._ends.items()}
        return [p for p, offset in self.position.offsets.items() if offset > ends.get(p, 0)]

    def _cut_short(self) -> LogCut:
        partitions = ", ".join(map(str, self._emptied()))
        return LogCut(
            f"the topic ends before what was read of its partitions {partitions}: it was emptied or"
            " made anew; restart with --skip-lost to read it from its start"
        )

    def _lost(self, starts: Mapping[TopicPartition, int]) -> dict[int, int]:
        offsets = self.position.offsets
        lost = {
            place.partition: start - offsets.get(place.partition, start)
            for place, start in starts.items()
        }
        return {partition: count for partition, count in lost.items() if count > 0}

    def _seek(self, starts: Mapping[TopicPartition, int]) -> None:
        for place, start in starts.items():
            offset = max(start, self.position.offsets.get(place.partition, start))
            self.position.offsets[place.partition] = offset
            self._consumer.seek(place, offset)


def log_ends(kafka: KafkaSettings, topic: str) -> dict[int, int]:
    """The next offset of every partition of a topic. Raises BrokerUnavailable."""
    with _answering(kafka), closing(_consumer(kafka)) as consumer:
        numbers = consumer.partitions_for_topic(topic) or ()
        places = [TopicPartition(topic, number) for number in numbers]
        return {place.partition: end for place, end in end_offsets(consumer, places).items()}


@contextmanager
def _answering(kafka: KafkaSettings) -> Iterator[None]:
    try:
        yield
    except (KafkaError, OSError) as error:
        raise BrokerUnavailable(kafka, error) from error


def _message(counts: Mapping[int, int]) -> str:
    return ", ".join(f"{count} of partition {p}" for p, count in sorted(counts.items()))


def _log_record(entry: Any) -> LogRecord:
    headers = {name: value.decode(errors="replace") for name, value in entry.headers}
    return LogRecord(entry.partition, entry.offset, entry.value or b"", entry.key or b"", headers)


def _consumer(kafka: KafkaSettings) -> KafkaConsumer:
    require_reachable(kafka)
    return KafkaConsumer(
        **kafka.reading(),
        # Else it would skip to the log's end without saying what was left out.
        auto_offset_reset="none",
        max_partition_fetch_bytes=FETCH_BYTES_MAX,
    )
