"""Judges against people's labels: counts, statistics, and the calibration that a report names."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium_evaluation.results.calibrations import calibration_of, label_agreement, pair_agreement
from podium_evaluation.runs.calibrating import Calibrated, LabelledAnswer, LabelledSet, read_labels
from podium_evaluation.runs.judges import Asked, Judge
from podium_evaluation.statistics.agreement import cohens_kappa, fleiss_kappa
from podium_kit.client.errors import UsageError

PROMPT = "0" * 64


def message(labels: Sequence[bool], *said: Sequence[bool | None]) -> pb.JudgeCalibration:
    """The counts of judges that say this of answers with these labels."""
    answers = [
        LabelledAnswer(task="?", answer="!", label="right" if each else "wrong") for each in labels
    ]
    judges = {
        Judge(f"judge-{number}"): [
            Asked(None if each is None else float(each), "") for each in verdicts
        ]
        for number, verdicts in enumerate(said)
    }
    found = Calibrated(LabelledSet("labels", PROMPT, answers), judges)
    models = dict.fromkeys(judges, "a-model")
    return found.message("an id", models, {judge.tool: 1 for judge in judges})


def test_rates_are_of_the_answers_that_they_say_something_about() -> None:
    labels = [True] * 10 + [False] * 10
    verdicts = [True] * 7 + [False] * 2 + [None] + [True] * 3 + [False] * 6 + [None]
    found = message(labels, verdicts)
    [judge] = found.judges
    agreed = label_agreement(judge)
    assert (found.labelled_right, found.labelled_wrong) == (10, 10)
    assert (agreed.judged, agreed.unjudged) == (18, 2)
    assert agreed.accuracy is not None and agreed.accuracy.mean == pytest.approx(13 / 18)
    # Wilson's interval of 13 of 18, from its definition: roots of (p - x)² = z² x (1 - x) / n.
    for bound in (agreed.accuracy.lower, agreed.accuracy.upper):
        left = (13 / 18 - bound) ** 2
        assert left == pytest.approx(1.959964**2 * bound * (1 - bound) / 18, abs=1e-6)
    assert agreed.false_positives is not None and agreed.false_negatives is not None
    assert agreed.false_positives.mean == pytest.approx(3 / 9)
    assert agreed.false_negatives.mean == pytest.approx(2 / 9)


def test_what_no_answer_says_anything_about_is_unknown_and_not_zero() -> None:
    [judge] = message([True, True], [True, None]).judges
    agreed = label_agreement(judge)
    assert agreed.false_positives is None and agreed.kappa is None
    assert agreed.false_negatives is not None and agreed.false_negatives.mean == 0
    nothing = label_agreement(message([True], [None]).judges[0])
    assert (nothing.judged, nothing.unjudged, nothing.accuracy) == (0, 1, None)


answers = st.lists(
    st.tuples(st.booleans(), *[st.sampled_from([True, False, None])] * 3), min_size=1, max_size=40
)


@given(answers)
def test_counts_give_the_statistics_of_the_verdicts_themselves(
    rows: list[tuple[bool, bool | None, bool | None, bool | None]],
) -> None:
    labels, *said = zip(*rows, strict=True)
    found = message(labels, *said)
    for judge, verdicts in zip(found.judges, said, strict=True):
        agreed = label_agreement(judge)
        known = [(v, label) for v, label in zip(verdicts, labels, strict=True) if v is not None]
        assert (agreed.judged, agreed.unjudged) == (len(known), len(rows) - len(known))
        if known:
            right = sum(v == label for v, label in known) / len(known)
            assert agreed.accuracy is not None and agreed.accuracy.mean == pytest.approx(right)
            assert agreed.accuracy.lower <= right <= agreed.accuracy.upper
        expected = cohens_kappa([(label, v) for v, label in known])
        assert (agreed.kappa is None) is (expected is None)
        if agreed.kappa and expected:
            assert agreed.kappa.mean == pytest.approx(expected.mean)
    both, equal, _ = pair_agreement(found.pairs[0])
    pairs = [(a, b) for _, a, b, _ in rows if a is not None and b is not None]
    assert (both, equal) == (len(pairs), sum(a == b for a, b in pairs))
    whole = [row[1:] for row in rows if None not in row]
    together = fleiss_kappa([[bool(each) for each in row] for row in whole])
    assert found.all_judged == len(whole)
    assert found.HasField("all_agree_kappa") is (together is not None)


def test_a_report_names_the_newest_calibration_of_the_judge_as_it_was_asked() -> None:
    def calibrated(prompt: str, version: int, day: int) -> pb.JudgeCalibration:
        made = message([True, False], [True, True])
        made.prompt_digest = prompt
        made.judges[0].tool_version = version
        made.create_time.CopyFrom(Timestamp(seconds=day * 86_400))
        return made

    known = [calibrated("f" * 64, 2, 3), calibrated(PROMPT, 2, 2), calibrated(PROMPT, 1, 1)]

    def named(key: dict[str, str], judge: str = "judge-0") -> str | None:
        found = calibration_of(judge, known, PROMPT, key)
        return found.date if found else None

    assert named({}) == "1970-01-03"
    assert named({"judges": "another version 7, judge-0 version 1"}) == "1970-01-02"
    assert named({"judges": "judge-0 version 3"}) is None
    assert named({}, "judge-9") is None


LINE = {"task": "Capital of France?", "answer": "Paris", "label": "right"}


def test_labels_are_read_and_a_file_at_fault_says_where(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"

    def write(*lines: object) -> Path:
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        return path

    read = read_labels(write({**LINE, "reference": "Paris"}, {**LINE, "label": "wrong"}))
    assert [each.is_right for each in read.answers] == [True, False]
    assert (read.name, len(read.digest), read.answers[1].reference) == ("labels", 64, None)
    for line, words in (
        ({**LINE, "label": "correct"}, "line 2: label: Input should be 'right' or 'wrong'"),
        ({"answer": "Paris", "label": "right"}, "line 2: task: Field required"),
        ({**LINE, "verdict": 1}, "line 2: verdict: Extra inputs"),
        ("Paris", "line 2"),
    ):
        with pytest.raises(UsageError) as rejected:
            read_labels(write(LINE, line))
        assert words in rejected.value.cause
    with pytest.raises(UsageError, match="0 labelled answers"):
        read_labels(write())
    with pytest.raises(UsageError):
        read_labels(tmp_path / "nosuch.jsonl")
