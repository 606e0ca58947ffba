import sys
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import yaml
from kafka import TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import KafkaTimeoutError

from podium_kit.stream import BrokerUnavailable, KafkaSettings
from podium_training.grpo import __main__ as program
from podium_training.grpo.data import stream
from podium_training.grpo.data.stream import LogCut, LogReader, Position, log_ends
from podium_training.grpo.ending import PASSING

SETTINGS = KafkaSettings(bootstrap="127.0.0.1:1")
BATCH = 2
"""Records of a partition that a poll gives at most."""


class Consumer:
    """The client's, of a log in memory that begins at offset 0."""

    log: dict[int, list[bytes | None]]
    """None is an offset without a record."""
    error: Exception | None
    """The error of everything that asks the brokers."""
    away: set[int]
    """Partitions whose brokers give no record."""

    unseen: dict[int, int]
    """Offsets at the end of a partition that no batch reaches."""

    def __init__(self, **_: Any) -> None:
        self._positions: dict[TopicPartition, int] = {}
        self._answered: set[TopicPartition] = set()
        self._paused: set[TopicPartition] = set()

    def partitions_for_topic(self, _: str) -> set[int]:
        self._ask()
        return set(self.log)

    def assign(self, places: list[TopicPartition]) -> None:
        self._positions = {place: self._positions.get(place, 0) for place in places}
        self._answered &= set(places)

    def assignment(self) -> set[TopicPartition]:
        return set(self._positions)

    def highwater(self, place: TopicPartition) -> int | None:
        return self._end(place) if place in self._answered else None

    def beginning_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        self._ask()
        return dict.fromkeys(places, 0)

    def end_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        self._ask()
        return {place: self._end(place) for place in places}

    def seek(self, place: TopicPartition, offset: int) -> None:
        self._positions[place] = offset

    def position(self, place: TopicPartition) -> int:
        return self._positions[place]

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
        self._ask()
        found = {
            place: self._after(place)
            for place in self._positions
            if place not in self._paused and place.partition not in self.away
        }
        self._answered |= set(found)
        for place, after in found.items():
            self._positions[place] += len(after)
        records = {
            place: [entry(place, offset, value) for offset, value in after if value is not None]
            for place, after in found.items()
        }
        return {place: entries for place, entries in records.items() if entries}

    def pause(self, *places: TopicPartition) -> None:
        self._paused.update(places)

    def resume(self, *places: TopicPartition) -> None:
        self._paused.difference_update(places)

    def close(self) -> None:
        """Nothing."""

    def _after(self, place: TopicPartition) -> list[tuple[int, bytes | None]]:
        start = self._positions[place]
        return list(enumerate(self.log[place.partition]))[start : start + BATCH]

    def _end(self, place: TopicPartition) -> int:
        return len(self.log[place.partition]) + self.unseen.get(place.partition, 0)

    def _ask(self) -> None:
        if self.error is not None:
            raise self.error


def entry(place: TopicPartition, offset: int, value: bytes) -> Any:
    fields = dict.fromkeys(ConsumerRecord._fields)
    known = {"topic": place.topic, "partition": place.partition, "offset": offset}
    return ConsumerRecord(**fields | known | {"value": value, "headers": []})


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> type[Consumer]:
    """Its log and its error are what a test sets them to."""
    Consumer.log, Consumer.error, Consumer.away = {0: [b"a", b"c"], 1: [b"b"]}, None, set()
    Consumer.unseen = {}
    monkeypatch.setattr(stream, "KafkaConsumer", Consumer)
    monkeypatch.setattr(stream, "require_reachable", lambda kafka: None)
    monkeypatch.setattr(stream, "POLL_MS", 0)
    return Consumer


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers say where the log ends, and give none of it to a reader."""
    ends = {TopicPartition("topic", number): 1 for number in (0, 1)}
    monkeypatch.setattr(stream, "end_offsets", lambda *_: ends)
    monkeypatch.setattr(Consumer, "poll", lambda *_, **__: {})


@pytest.mark.parametrize("error", [KafkaTimeoutError("no"), ConnectionRefusedError()])
def test_brokers_that_do_not_answer_are_said_to(consumer: type[Consumer], error: Exception) -> None:
    reader = LogReader(SETTINGS, "topic")
    consumer.error = error
    with pytest.raises(BrokerUnavailable):
        LogReader(SETTINGS, "topic")
    with pytest.raises(BrokerUnavailable):
        list(reader.records(60))
    with pytest.raises(BrokerUnavailable):
        reader.lag()
    with pytest.raises(BrokerUnavailable):
        log_ends(SETTINGS, "topic")


def test_a_run_is_started_again_when_brokers_do_not_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "run.yaml"
    run = {"model": "base", "output": "run", "steps": 3, "stream": {"bootstrap": "127.0.0.1:1"}}
    path.write_text(yaml.safe_dump(run))

    def train(*_: object) -> int:
        raise BrokerUnavailable(SETTINGS, KafkaTimeoutError())

    monkeypatch.setattr(program, "_train", train)
    monkeypatch.setattr(sys, "argv", ["grpo", str(path)])
    assert program.main() == PASSING
    assert "the brokers at 127.0.0.1:1 do not answer" in capsys.readouterr().err


def test_partitions_take_turns(consumer: type[Consumer]) -> None:
    reader = LogReader(SETTINGS, "topic")
    assert [record.value for record in reader.records(0.1)] == [b"a", b"b", b"c"]
    assert reader.order == [0, 1, 0]
    assert reader.position == Position({0: 2, 1: 1}, turn=1)


@pytest.mark.parametrize("read", [{0: 3, 1: 1}, {0: 2, 1: 1, 2: 1}], ids=["emptied", "no more"])
def test_a_topic_that_ends_before_what_was_read_is_rejected(
    consumer: type[Consumer], read: dict[int, int]
) -> None:
    with pytest.raises(LogCut, match=r"emptied or made anew; .*--skip-lost"):
        LogReader(SETTINGS, "topic", Position(read))


def test_an_emptied_partition_is_read_from_its_start_where_that_is_allowed(
    consumer: type[Consumer],
) -> None:
    reader = LogReader(SETTINGS, "topic", Position({0: 5000, 1: 1, 2: 7}), skip_lost=True)
    assert reader.emptied == [0, 2]
    assert reader.lag() == 2
    assert [record.value for record in reader.records(0.1)] == [b"a", b"c"]
    assert reader.position.offsets == {0: 2, 1: 1}


def test_a_topic_that_is_emptied_while_it_is_read_ends_the_run(consumer: type[Consumer]) -> None:
    records = LogReader(SETTINGS, "topic").records(60)
    assert len([next(records) for _ in range(3)]) == 3
    consumer.log = {0: [b"d"], 1: []}
    with pytest.raises(LogCut, match="its partitions 0, 1: it was emptied"):
        next(records)


def test_silent_brokers_end_the_run(consumer: type[Consumer], silent: None) -> None:
    with pytest.raises(BrokerUnavailable):
        next(LogReader(SETTINGS, "topic").records(60))
    with pytest.raises(BrokerUnavailable):
        next(LogReader(SETTINGS, "topic").records_again([0]))


def test_little_is_held_of_other_partitions_while_one_is_awaited(
    consumer: type[Consumer], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stream, "HELD_MAX", 3)
    consumer.log, consumer.away = {0: [b"a"] * 20, 1: [b"b"] * 2}, {1}
    ends = {TopicPartition("topic", 0): 20, TopicPartition("topic", 1): 2}
    monkeypatch.setattr(stream, "end_offsets", lambda *_: ends)
    reader = LogReader(SETTINGS, "topic")
    with pytest.raises(BrokerUnavailable):
        list(reader.records(60))
    assert [len(held) for held in reader._fetched.values()] == [3, 0]
    assert "partition 1 gives no record from offset 0 on" in caplog.text
    consumer.away = set()
    values = [record.value for record in reader.records(0.1)]
    assert values == [b"b", b"a", b"b", *[b"a"] * 18]


def test_a_log_whose_end_cannot_be_read_ends_the_run(consumer: type[Consumer]) -> None:
    consumer.away = {1}
    with pytest.raises(BrokerUnavailable) as ended:
        LogReader(SETTINGS, "topic")
    assert "topic/1" in str(ended.value.__cause__)


def test_a_run_can_be_stopped_while_brokers_are_silent(
    consumer: type[Consumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = Event()
    reader = LogReader(SETTINGS, "topic")

    def poll(*_: Any, **__: Any) -> dict[TopicPartition, list[Any]]:
        stop.set()
        return {}

    monkeypatch.setattr(consumer, "poll", poll)
    assert list(reader.records(60, stop)) == []


@pytest.mark.parametrize(
    "log",
    [
        {0: [b"a", b"b", None], 1: [b"c"]},
        {0: [b"a", None, None, None, b"b", None, None, None], 1: [b"c", None]},
        {0: [b"a", b"b"], 1: [None, None, None, b"c"]},
        {0: [None] * 9 + [b"a", b"b"] + [None] * 9, 1: [None, b"c", None]},
    ],
)
def test_offsets_without_records_are_passed_and_end_a_log_quietly(
    consumer: type[Consumer], monkeypatch: pytest.MonkeyPatch, log: dict[int, list[bytes | None]]
) -> None:
    """Public report 64: marks of transactions, and what compaction removed."""
    consumer.log = log
    monkeypatch.setattr(stream, "SILENT_POLLS_MAX", 3)
    reader = LogReader(SETTINGS, "topic")
    assert sorted(record.value for record in reader.records(0.2)) == [b"a", b"b", b"c"]
    assert (reader.lag(), reader.position.offsets) == (0, {0: len(log[0]), 1: len(log[1])})
    again = LogReader(SETTINGS, "topic")
    assert [record.value for record in again.records_again(reader.order)][-1:] != []
    beyond = LogReader(SETTINGS, "topic")
    with pytest.raises(LogCut, match="ends too early"):
        list(beyond.records_again([*reader.order, 1]))


@pytest.mark.parametrize("unseen", [{0: 1}, {0: 3, 1: 2}])
def test_a_log_ends_where_its_last_offsets_are_reached_by_no_batch(
    consumer: type[Consumer], unseen: dict[int, int]
) -> None:
    """Public report 64: some brokers leave marks at the end out of what they answer."""
    consumer.unseen = unseen
    reader = LogReader(SETTINGS, "topic")
    assert [record.value for record in reader.records(0.1)] == [b"a", b"b", b"c"]
    ends = {0: 2 + unseen[0], 1: 1 + unseen.get(1, 0)}
    assert (reader.lag(), reader.position.offsets, log_ends(SETTINGS, "topic")) == (0, ends, ends)
    # What comes after them is read.
    for partition, count in unseen.items():
        consumer.log[partition] += [None] * count + [b"d"]
    consumer.unseen = {}
    values = [record.value for record in reader.records(0.1)]
    assert values == [b"d"] * len(unseen)


def test_a_broker_that_went_away_has_no_invisible_records(
    consumer: type[Consumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        stream, "end_offsets", lambda consumer, places: consumer.end_offsets(places)
    )
    reader = LogReader(SETTINGS, "topic")
    assert [record.value for record in reader.records(0.1)] == [b"a", b"b", b"c"]
    consumer.log[0].append(b"d")
    consumer.away = {0}
    with pytest.raises(BrokerUnavailable):
        list(reader.records(60))
    assert reader.position.offsets == {0: 2, 1: 1}
