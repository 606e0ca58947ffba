"""Episodes of the stream: converted, rejected with a reason, quarantined."""

import base64
import hashlib
import json
import math
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import trajectory_pb2 as pb
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.registry.v1 import policy_pb2
from podium_training.grpo.data import dead_letters
from podium_training.grpo.data.convert import episode_from_proto
from podium_training.grpo.data.dead_letters import REJECTED, RejectedRecords
from podium_training.grpo.data.envelopes import SCHEMA, open_record
from podium_training.grpo.data.episodes import Limits, Reason, Rejected
from podium_training.grpo.data.stream import LogRecord
from unit.podium_training.grpo.builders import DIGEST, make_response, make_trajectory

LIMITS = Limits(vocabulary=64, row_tokens_max=100)
GREEDY = orchestrator_pb.Sampling(max_tokens=64)
ENDLESS = orchestrator_pb.Sampling(temperature=math.nan)
NUCLEUS = orchestrator_pb.Sampling(temperature=1.0, top_p=0.8)


def test_an_episode_is_its_ids_as_sampled_and_what_it_did() -> None:
    episode = episode_from_proto(make_trajectory(), LIMITS)
    (row,) = episode.rows
    assert (row.prompt_ids, row.completion_ids) == ((3, 4, 5), (6, 7))
    assert (row.inference_logprobs, row.constraint) == ((-0.5, -0.25), DIGEST)
    assert (episode.features.tool_calls, episode.features.solved) == ((1, 0), True)
    assert (episode.features.cost, episode.features.latency_s) == (0.01, 2.0)
    assert episode.preferences.vector().tolist() == [0.25, 0.0, 1.0, 0.5, 0.0]
    assert not episode.constraints[DIGEST].any_whitespace


def test_several_verifiers_must_all_agree() -> None:
    outcomes = [pb.Outcome(score=1.0), pb.Outcome(score=0.0)]
    assert not episode_from_proto(make_trajectory(outcomes=outcomes), LIMITS).features.solved


def test_what_a_deadline_cut_off_needs_no_price() -> None:
    deadline = episode_pb2.STOP_REASON_DEADLINE
    out_of_time = make_trajectory(stop_reason=deadline, unpriced_call_count=1)
    assert episode_from_proto(out_of_time, LIMITS).rows


@pytest.mark.parametrize(
    ("reason", "fields"),
    [
        (Reason.NO_CONSENT, {"training_consent": False}),
        # Known before anything else is looked at.
        (Reason.NO_CONSENT, {"training_consent": False, "turns": [pb.Turn(number=2)]}),
        (Reason.HELD_OUT, {"labels": {"split": "held-out"}}),
        (Reason.INTERRUPTED, {"stop_reason": episode_pb2.STOP_REASON_CANCELLED}),
        (Reason.INTERRUPTED, {"stop_reason": episode_pb2.STOP_REASON_FAILED}),
        (Reason.INTERRUPTED, {"turns": []}),
        (Reason.NOT_JUDGED, {"outcomes": []}),
        (Reason.UNPRICED, {"unpriced_call_count": 1}),
        (Reason.MALFORMED, {"tool_names": ["calculator"]}),
        (Reason.MALFORMED, {"stop_reason": episode_pb2.STOP_REASON_UNSPECIFIED}),
        (Reason.MALFORMED, {"turns": [pb.Turn(number=2)]}),
        (Reason.MALFORMED, {"cost": "cheap"}),
        (Reason.MALFORMED, {"cost": "sNaN"}),
        (Reason.MALFORMED, {"cost": "-1"}),
        (Reason.MALFORMED, {"features": pb.RewardFeatures(tool_call_counts=[-1, 0])}),
        (Reason.MALFORMED, {"outcomes": [pb.Outcome(score=math.nan)]}),
        (Reason.MALFORMED, {"outcomes": [pb.Outcome(score=300.0)]}),
        (Reason.MALFORMED, {"preferences": policy_pb2.PreferenceVector(compute=-3)}),
    ],
)
def test_an_unusable_trajectory_is_rejected(reason: Reason, fields: dict[str, Any]) -> None:
    with pytest.raises(Rejected) as rejected:
        episode_from_proto(make_trajectory(**fields), LIMITS)
    assert rejected.value.reason is reason


@pytest.mark.parametrize(
    ("reason", "fields"),
    [
        (Reason.NO_TOKENS, {"completion_token_ids": [], "completion_logprobs": []}),
        (Reason.NO_TOKENS, {"prompt_token_ids": []}),
        (Reason.BAD_LOGPROB, {"completion_logprobs": [-0.5]}),
        (Reason.BAD_LOGPROB, {"completion_logprobs": [float("nan"), -0.5]}),
        (Reason.BAD_LOGPROB, {"completion_logprobs": [0.5, -0.5]}),
        (Reason.BAD_LOGPROB, {"completion_logprobs": [-9999.0, -0.5]}),
        (Reason.TOKEN_OUT_OF_RANGE, {"completion_token_ids": [6, 64]}),
        (Reason.TOO_LONG, {"prompt_token_ids": [3] * 200}),
        (Reason.TRUNCATED_SAMPLING, {"sampling": GREEDY}),
        (Reason.TRUNCATED_SAMPLING, {"sampling": NUCLEUS}),
        (Reason.TRUNCATED_SAMPLING, {"sampling": ENDLESS}),
        (Reason.UNKNOWN_CONSTRAINT, {"constraint_json_schema": "{}"}),
    ],
)
def test_an_unusable_call_is_rejected(reason: Reason, fields: dict[str, Any]) -> None:
    with pytest.raises(Rejected) as rejected:
        episode_from_proto(make_trajectory(response=make_response(**fields)), LIMITS)
    assert rejected.value.reason is reason


def test_a_greedy_answer_is_imitated() -> None:
    trajectory = make_trajectory(response=make_response(sampling=GREEDY))
    [row] = episode_from_proto(trajectory, replace(LIMITS, imitated=True)).rows
    assert row.temperature == 1.0


def test_a_prompt_of_another_template_is_rejected() -> None:
    limits = Limits(vocabulary=64, prompt_digest="abc")
    ours, unsaid = (make_response(prompt_digest=digest) for digest in ("abc", ""))
    for response in (ours, unsaid):
        assert episode_from_proto(make_trajectory(response=response), limits).rows
    theirs = make_trajectory(response=make_response(prompt_digest="def"))
    with pytest.raises(Rejected, match="other tokenizer"):
        episode_from_proto(theirs, limits)


@pytest.mark.parametrize(
    ("recorded", "trained"),
    [
        (" say 6 7 ", True),
        ("", True),
        # An engine with a parser of thoughts leaves them out.
        ("6 7", True),
        ("say 6 7 and more", False),
        ("something else", False),
    ],
)
def test_tokens_that_say_something_else_are_of_another_tokenizer(
    recorded: str, trained: bool
) -> None:
    limits = Limits(vocabulary=64, text_of=lambda tokens: f"say {' '.join(map(str, tokens))}")
    trajectory = make_trajectory(response=make_response(completion_text=recorded))
    if trained:
        assert episode_from_proto(trajectory, limits).rows
        return
    with pytest.raises(Rejected, match="other tokenizer: its tokens say something else"):
        episode_from_proto(trajectory, limits)


def make_record(value: bytes, digest: str = "", schema: str = SCHEMA) -> LogRecord:
    headers = {"digest": digest or hashlib.sha256(value).hexdigest(), "schema": schema}
    return LogRecord(0, 7, value, b"g1", headers)


VALUE = pb.TrajectoryRecord(trajectory=make_trajectory()).SerializeToString()
NAMELESS = pb.TrajectoryRecord(trajectory=make_trajectory("")).SerializeToString()


def test_a_record_as_it_was_sent_is_opened() -> None:
    assert open_record(make_record(VALUE)).trajectory == make_trajectory()


def test_a_reference_has_the_digest_of_what_it_stands_for() -> None:
    reference = pb.TrajectoryReference(episode_id="e1", digest="abc")
    value = pb.TrajectoryRecord(reference=reference).SerializeToString()
    assert open_record(make_record(value, "abc")).reference == reference
    with pytest.raises(Rejected, match="wrong digest"):
        open_record(make_record(value, "def"))


@pytest.mark.parametrize(
    ("reason", "record"),
    [
        (Reason.OTHER_SCHEMA, make_record(VALUE, schema="podium.episodes.v2.TrajectoryRecord")),
        (Reason.OTHER_SCHEMA, LogRecord(0, 7, VALUE)),
        (Reason.WRONG_DIGEST, make_record(VALUE, "0" * 64)),
        (Reason.WRONG_DIGEST, make_record(VALUE[:0], hashlib.sha256(VALUE).hexdigest())),
        (Reason.MALFORMED, make_record(VALUE[: len(VALUE) // 2])),
        (Reason.MALFORMED, make_record(b"")),
        (Reason.MALFORMED, make_record(NAMELESS)),
    ],
)
def test_a_record_that_is_not_what_it_should_be_is_rejected(
    reason: Reason, record: LogRecord
) -> None:
    with pytest.raises(Rejected) as rejected:
        open_record(record)
    assert rejected.value.reason is reason


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
