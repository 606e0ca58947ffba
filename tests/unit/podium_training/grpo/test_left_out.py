from collections import Counter

import pytest

from podium.episodes.v1 import trajectory_pb2 as pb
from podium_training.grpo.data.convert import episode_from_proto
from podium_training.grpo.data.episodes import Episode, Limits, Reason
from podium_training.grpo.data.groups import DUPLICATE, Dropped, Group, GroupAssembler, GroupRules
from podium_training.grpo.data.left_out import LeftOut
from podium_training.grpo.objective.staleness import StalenessBound
from unit.podium_training.grpo.trajectories import make_response, make_trajectory


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


BOUND = StalenessBound("demo", versions_behind_max=2)


def make_episode(id: str, *versions: str) -> Episode:
    calls = [pb.ModelCall(response=make_response(model_version=each)) for each in versions]
    turns = [pb.Turn(number=n, model_call=call) for n, call in enumerate(calls, 1)]
    found = make_trajectory(id, solved=id == "e0", turns=turns)
    return episode_from_proto(found, Limits(vocabulary=64))


def assembled(assembler: GroupAssembler, *oldest: str) -> Group:
    assembler.add(make_episode("e0", "policy-demo-v9"))
    group = assembler.add(make_episode("e1", *oldest))
    assert group is not None
    return group


@pytest.mark.parametrize(
    ("versions", "admitted"),
    [
        (("policy-demo-v9",), True),
        (("policy-demo-v7", "policy-demo-v9"), True),
        (("policy-demo-v9", "policy-demo-v6"), False),
        # Of another run, or no version at all: what the run began with.
        (("policy-other-v9",), False),
        (("smollm2-135m",), False),
    ],
)
def test_the_oldest_call_of_a_group_decides(versions: tuple[str, ...], admitted: bool) -> None:
    assembler = GroupAssembler(GroupRules(staleness=BOUND))
    assert assembler.admits(assembled(assembler, *versions), step=9) is admitted
    assert assembler.dropped == ({} if admitted else {Dropped.STALE: 1})


def test_what_the_run_began_with_is_as_old_as_the_run() -> None:
    assembler = GroupAssembler(GroupRules(staleness=BOUND))
    group = assembled(assembler, "smollm2-135m")
    assert [assembler.admits(group, step) for step in range(4)] == [True, True, True, False]


def test_without_a_bound_no_group_is_too_old() -> None:
    assembler = GroupAssembler()
    assert assembler.admits(assembled(assembler, "policy-demo-v1"), step=1000)
