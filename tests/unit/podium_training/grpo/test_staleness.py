"""Groups that a policy too far behind has answered are dropped, and counted."""

import pytest

from podium.episodes.v1 import trajectory_pb2 as pb
from podium_training.grpo.data.convert import episode_from_proto
from podium_training.grpo.data.episodes import Episode, Limits
from podium_training.grpo.data.groups import Dropped, Group, GroupAssembler, GroupRules
from podium_training.grpo.objective.staleness import StalenessBound
from unit.podium_training.grpo.trajectories import make_response, make_trajectory

BOUND = StalenessBound("demo", versions_behind_max=2)


def make_episode(id: str, *versions: str) -> Episode:
    """Each call was answered by another version."""
    calls = [pb.ModelCall(response=make_response(model_version=each)) for each in versions]
    turns = [pb.Turn(number=n, model_call=call) for n, call in enumerate(calls, 1)]
    found = make_trajectory(id, solved=id == "e0", turns=turns)
    return episode_from_proto(found, Limits(vocabulary=64))


def assembled(assembler: GroupAssembler, *oldest: str) -> Group:
    """A group whose second member met these versions."""
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
