import base64
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from podium.episodes.v1 import trajectory_pb2 as pb
from podium_training.grpo.data import dead_letters
from podium_training.grpo.data.dead_letters import REJECTED, RejectedRecords
from podium_training.grpo.data.episodes import Reason
from podium_training.grpo.data.stream import LogRecord
from unit.podium_training.grpo.trajectories import make_trajectory


def value_of(**fields: Any) -> bytes:
    return pb.TrajectoryRecord(trajectory=make_trajectory(**fields)).SerializeToString()


ALLOWED, PRIVATE = value_of(), value_of(training_consent=False)
GIVEN = pb.TrajectoryRecord(feedback_given=pb.FeedbackGiven(episode_id="e1")).SerializeToString()


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / REJECTED).read_text().splitlines()]


def test_a_record_is_kept_with_its_place_and_reason(tmp_path: Path) -> None:
    record = LogRecord(2, 7, ALLOWED, b"g1", {"schema": "s"})
    RejectedRecords(tmp_path, "topic").keep(record, Reason.MALFORMED, "why")
    assert lines(tmp_path) == [
        {
            "topic": "topic",
            "partition": 2,
            "offset": 7,
            "key": "g1",
            "headers": {"schema": "s"},
            "reason": "malformed",
            "detail": "why",
            "record": base64.b64encode(ALLOWED).decode(),
        }
    ]


def test_a_place_is_kept_once_also_by_the_next_run(tmp_path: Path) -> None:
    for _ in range(2):
        aside = RejectedRecords(tmp_path, "topic")
        for partition, offset in ((0, 7), (1, 7), (0, 9)):
            aside.keep(LogRecord(partition, offset, b"x"), Reason.UNPRICED, "")
    places = [(line["partition"], line["offset"]) for line in lines(tmp_path)]
    assert places == [(0, 7), (1, 7), (0, 9)]


def test_a_large_file_takes_places_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "RECORDS_BYTES_MAX", 1)
    for offset in (7, 8):
        RejectedRecords(tmp_path, "topic").keep(LogRecord(0, offset, ALLOWED), Reason.UNPRICED, "")
    kept = [(line["offset"], line["record"] is not None) for line in lines(tmp_path)]
    assert kept == [(7, True), (8, False)]


def test_a_topic_that_was_emptied_is_kept_from_its_start(tmp_path: Path) -> None:
    RejectedRecords(tmp_path, "topic").keep(LogRecord(0, 7, b"x"), Reason.UNPRICED, "")
    aside = RejectedRecords(tmp_path, "topic")
    aside.forget([0, 1])
    aside.keep(LogRecord(0, 2, b"y"), Reason.UNPRICED, "")
    assert [line["offset"] for line in lines(tmp_path)] == [7, 2]


@pytest.mark.parametrize(
    ("reason", "value"),
    [
        (Reason.NO_CONSENT, PRIVATE),
        (Reason.WRONG_DIGEST, PRIVATE),
        (Reason.OTHER_SCHEMA, ALLOWED),
        (Reason.MALFORMED, ALLOWED[:-5]),
        (Reason.MALFORMED, b""),
        (Reason.UNPRICED, GIVEN),
    ],
)
def test_what_does_not_say_that_it_may_train_is_not_copied(
    reason: Reason, value: bytes, tmp_path: Path
) -> None:
    RejectedRecords(tmp_path, "topic").keep(LogRecord(0, 7, value), reason, "")
    assert [line["record"] for line in lines(tmp_path)] == [None]


def test_a_line_that_a_kill_tore_is_written_again(tmp_path: Path) -> None:
    RejectedRecords(tmp_path, "topic").keep(LogRecord(0, 1, b"a"), Reason.MALFORMED, "")
    whole = (tmp_path / REJECTED).read_text()
    (tmp_path / REJECTED).write_text(whole + whole[:20])
    RejectedRecords(tmp_path, "topic").keep(LogRecord(0, 2, b"b"), Reason.MALFORMED, "")
    assert [line["offset"] for line in lines(tmp_path)] == [1, 2]


def test_a_run_goes_on_however_much_was_rejected(tmp_path: Path) -> None:
    aside = RejectedRecords(tmp_path, "topic")
    large = value_of(task_id="t" * 1_000_000)
    for offset in range(20):
        aside.keep(LogRecord(0, offset, large), Reason.UNPRICED, "")
    tracemalloc.start()
    again = RejectedRecords(tmp_path, "topic")
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 10_000_000
    again.keep(LogRecord(0, 19, large), Reason.UNPRICED, "")
    assert len(lines(tmp_path)) == 20
