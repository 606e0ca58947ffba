"""What a run leaves out is said while it waits, and not at every record."""

from collections import Counter

import pytest

from podium_training.grpo.data.episodes import Reason
from podium_training.grpo.data.groups import DUPLICATE, Dropped
from podium_training.grpo.data.left_out import LeftOut


def warnings(left_out: LeftOut, counts: Counter[str], caplog: pytest.LogCaptureFixture) -> str:
    caplog.clear()
    left_out.count(counts, 3)
    return caplog.text


def test_a_steps_worth_that_is_left_out_is_said_with_cause_and_fix(
    caplog: pytest.LogCaptureFixture,
) -> None:
    left_out = LeftOut(warn_at=4)
    counts: Counter[str] = Counter({Dropped.ZERO_VARIANCE: 3})
    assert not warnings(left_out, counts, caplog)
    counts[Reason.OTHER_TOKENIZER] += 1
    said = warnings(left_out, counts, caplog)
    assert "no step after step 3" in said
    assert "3 zero variance (members of a group earn alike" in said
    assert "1 other tokenizer (`model` is not what answered" in said


def test_it_is_said_again_when_twice_as_many_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    left_out = LeftOut(warn_at=4)
    counts: Counter[str] = Counter()
    said = []
    for count in range(1, 40):
        counts[Dropped.UNSOLVED] = count
        if warnings(left_out, counts, caplog):
            said.append(count)
    assert said == [4, 8, 16, 32]


def test_a_step_begins_the_count_anew(caplog: pytest.LogCaptureFixture) -> None:
    left_out = LeftOut(warn_at=4)
    counts: Counter[str] = Counter({Dropped.ZERO_VARIANCE: 3})
    left_out.step_taken(counts)
    counts[Dropped.ZERO_VARIANCE] += 3
    assert not warnings(left_out, counts, caplog)
    assert left_out.count(counts, 4) == 3


def test_a_record_that_came_twice_is_not_left_out() -> None:
    assert LeftOut(warn_at=1).count(Counter({DUPLICATE: 9}), 0) == 0


def test_reasons_are_those_since_the_last_step() -> None:
    left_out = LeftOut(warn_at=1)
    counts: Counter[str] = Counter({Reason.UNPRICED: 2, DUPLICATE: 1})
    assert left_out.reasons(counts) == (
        "2 unpriced (give every tool and model that is called a price)"
    )
    left_out.step_taken(counts)
    assert not left_out.reasons(counts)
