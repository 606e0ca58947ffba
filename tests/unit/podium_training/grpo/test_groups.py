"""Groups of episodes: assembled, scored by feedback, left out."""

import itertools
from collections import Counter
from collections.abc import Collection
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from podium.common.v1.money_pb2 import Money
from podium.episodes.v1 import feedback_pb2
from podium.episodes.v1 import trajectory_pb2 as pb
from podium.registry.v1.policy_pb2 import PreferenceVector
from podium_training.grpo.data.convert import episode_from_proto
from podium_training.grpo.data.episodes import Episode, GroupKey, Limits, Reason
from podium_training.grpo.data.feedback import AwaitedFeedback
from podium_training.grpo.data.groups import (
    DUPLICATE,
    Dropped,
    Group,
    GroupAssembler,
    GroupRules,
    compared,
)
from podium_training.grpo.data.left_out import LeftOut
from podium_training.grpo.objective.advantages import Advantage
from podium_training.grpo.objective.rewards import Weight
from podium_training.grpo.objective.staleness import StalenessBound
from unit.podium_training.grpo.builders import VOCABULARY, make_response, make_trajectory

LIMITS = Limits(vocabulary=64)
G1 = GroupKey("acme", "g1")


def make_episode(id: str, **fields: Any) -> Episode:
    return episode_from_proto(make_trajectory(id, **fields), LIMITS)


def members(*solved: bool, size: int | None = None) -> list[Episode]:
    return [
        make_episode(f"e{number}", solved=each, group_size=size or len(solved))
        for number, each in enumerate(solved)
    ]


def test_a_group_is_given_when_its_last_member_arrives() -> None:
    assembler = GroupAssembler()
    first, second = members(True, False)
    assert assembler.add(first) is None
    group = assembler.add(second)
    assert isinstance(group, Group)
    assert group.rewards[0] > group.rewards[1] == 0.0
    (found,) = compared([group], Advantage.GROUP_STD)
    assert found.advantages[0] == pytest.approx(-found.advantages[1])


def uneven_groups() -> list[Group]:
    assembler = GroupAssembler()
    episodes = [
        make_episode(f"{size}-{n}", solved=n == 0, group_id=f"of {size}", group_size=size)
        for size in (2, 3)
        for n in range(size)
    ]
    return [group for each in episodes if (group := assembler.add(each))]


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        # Each group's own mean and deviation: 1/2 and sqrt(1/2), 1/3 and sqrt(1/3).
        (Advantage.GROUP_STD, [[0.70711, -0.70711], [1.1547, -0.57735, -0.57735]]),
        # One deviation, of 1 0 1 0 0: sqrt(0.3).
        (Advantage.BATCH_STD, [[0.91287, -0.91287], [1.21716, -0.60858, -0.60858]]),
        # As group_std, for one component differs; then over the deviation of all five: sqrt(0.75).
        (Advantage.GDPO, [[0.8165, -0.8165], [1.33333, -0.66667, -0.66667]]),
    ],
)
def test_the_groups_of_a_step_are_compared_together(
    estimator: Advantage, expected: list[list[float]]
) -> None:
    found = compared(uneven_groups(), estimator)
    assert [each.key.id for each in found] == ["of 2", "of 3"]
    for group, advantages in zip(found, expected, strict=True):
        assert group.advantages == pytest.approx(advantages, rel=1e-3)


def costly_and_plain(ignored: Collection[Weight]) -> tuple[GroupAssembler, Group | None]:
    assembler = GroupAssembler(GroupRules(ignored=frozenset(ignored)))
    wanted = PreferenceVector(outcome=1, compute=0.5, latency=0.75, tools={"calculator": 0.25})
    found = None
    for id, calls, cost, seconds in (("costly", 1, "0.02", 4), ("plain", 0, "0.01", 2)):
        features = pb.RewardFeatures(
            tool_call_counts=[calls, 0],
            cost=Money(currency_code="USD", amount=cost),
            latency=Duration(seconds=seconds),
        )
        found = assembler.add(make_episode(id, preferences=wanted, features=features))
    return assembler, found


@pytest.mark.parametrize(
    ("ignored", "rewards"),
    [
        ([], (0.25, 1.25)),
        ([Weight.COMPUTE], (0.25, 0.75)),
        ([Weight.LATENCY], (0.25, 0.5)),
        ([Weight.TOOLS], (0.0, 1.25)),
    ],
)
def test_an_ablation_leaves_a_weight_out_of_rewards(
    ignored: list[Weight], rewards: tuple[float, ...]
) -> None:
    _, group = costly_and_plain(ignored)
    assert group is not None
    assert group.rewards == pytest.approx(rewards)


@pytest.mark.parametrize(("masked", "rows"), [(False, [2, 2]), (True, [1, 2])])
def test_the_format_filter_masks_replies_that_could_not_be_read(
    masked: bool, rows: list[int]
) -> None:
    assembler = GroupAssembler(GroupRules(masks_malformed=masked))
    found = None
    for id, solved in (("muddled", False), ("clear", True)):
        calls = [pb.ModelCall(response=make_response()) for _ in range(2)]
        if id == "muddled":
            calls[0].response.action.malformed.SetInParent()
        turns = [pb.Turn(number=at, model_call=call) for at, call in enumerate(calls, start=1)]
        trajectory = make_trajectory(id, solved=solved, turns=turns)
        found = assembler.add(episode_from_proto(trajectory, LIMITS))
    assert found is not None
    assert [len(member.rows) for member in found.members] == rows
    assert [member.features.malformed_share for member in found.members] == [0.5, 0]
    assert found.rewards == (0.0, 1.0), "the episode counts in its group as before"


def test_without_any_weight_two_that_are_solved_are_alike() -> None:
    assembler, group = costly_and_plain(list(Weight))
    assert group is None
    assert assembler.dropped == {Dropped.ZERO_VARIANCE: 1}


def test_groups_may_arrive_interleaved_and_in_any_order() -> None:
    episodes = [
        make_episode(f"{group}{n}", solved=n == 0, group_id=group, group_size=3)
        for group, n in itertools.product("ab", range(3))
    ]
    assembler = GroupAssembler()
    found = [group for each in reversed(episodes) if (group := assembler.add(each))]
    assert [group.key.id for group in found] == ["b", "a"]
    assert all(len(group.members) == 3 for group in found)


def test_two_tenants_may_give_their_groups_one_id() -> None:
    assembler = GroupAssembler()
    found = [
        assembler.add(make_episode(f"{tenant}-{n}", solved=n == 0, tenant=tenant))
        for n, tenant in itertools.product(range(2), ("acme", "globex"))
    ]
    assert [group and group.key for group in found] == [None, None, G1, GroupKey("globex", "g1")]
    assert all({each.group for each in group.members} == {group.key} for group in found if group)


def test_a_record_that_comes_twice_is_one_episode() -> None:
    assembler = GroupAssembler()
    first, second = members(True, False)
    assert (assembler.add(first), assembler.add(first)) == (None, None)
    group = assembler.add(second)
    assert group is not None
    assert len(group.members) == 2
    assert assembler.dropped["duplicate"] == 1


def test_a_member_that_never_arrives_is_absent_and_no_failure() -> None:
    assembler = GroupAssembler()
    first, second, _ = members(True, False, True)
    assembler.add(first)
    assembler.add(second)
    group = assembler.mark_missing("e2", G1, 3)
    assert group is not None
    assert [member.id for member in group.members] == ["e0", "e1"]


def test_a_group_of_too_few_members_is_dropped() -> None:
    assembler = GroupAssembler()
    assembler.add(members(True, False, size=8)[0])
    for number in range(7):
        assembler.mark_missing(f"gone{number}", G1, 8)
    assert assembler.dropped == {Dropped.TOO_FEW: 1}
    assert not assembler.open


def test_a_group_whose_members_earn_the_same_teaches_nothing() -> None:
    assembler = GroupAssembler()
    for episode in members(False, False):
        assert assembler.add(episode) is None
    assert assembler.dropped == {Dropped.ZERO_VARIANCE: 1}


@pytest.mark.parametrize("other", [{"preferences": {"outcome": 0.5}}, {"task_id": "sums-2"}])
def test_members_under_other_preferences_or_of_other_tasks_are_not_compared(
    other: dict[str, Any],
) -> None:
    assembler = GroupAssembler()
    assembler.add(make_episode("e0"))
    assembler.add(make_episode("e1", solved=False, **other))
    assert assembler.dropped == {Dropped.MIXED: 1}


def test_members_that_found_other_tools_are_compared_over_all_of_them() -> None:
    assembler = GroupAssembler()
    calls = {"tool_call_counts": [0, 2], "cost": {"amount": "0.01", "currency_code": "USD"}}
    assembler.add(make_episode("e0"))
    group = assembler.add(
        make_episode("e1", solved=False, tool_names=["calculator", "units"], features=calls)
    )
    assert group is not None
    assert [member.tools for member in group.members] == [("calculator", "search", "units")] * 2
    assert [member.features.tool_calls for member in group.members] == [(1, 0, 0), (0, 0, 2)]


def test_a_group_is_closed_with_the_members_that_arrived() -> None:
    assembler = GroupAssembler(GroupRules(members_min_share=0.5))
    for episode in members(True, False, size=4):
        assembler.add(episode)
    group = assembler.close(G1)
    assert group is not None
    assert len(group.members) == 2
    assert assembler.close(G1) is None


def test_one_open_group_too_many_closes_the_oldest_with_what_it_has() -> None:
    assembler = GroupAssembler(maximum=1)
    for episode in members(True, False, size=3):
        assembler.add(episode)
    # One that is complete at once takes no place.
    assert assembler.add(make_episode("alone", group_id="g2", group_size=1)) is None
    assert list(assembler.open) == [G1]
    group = assembler.add(make_episode("first", group_id="g3"))
    assert group is not None
    assert [member.id for member in group.members] == ["e0", "e1"]
    assert [key.id for key in assembler.open] == ["g3"]
    assert assembler.mark_missing("gone", GroupKey("acme", "g4"), 0) is None
    assert [key.id for key in assembler.open] == ["g4"]
    assert assembler.dropped == {Dropped.TOO_FEW: 2}


def test_a_demonstration_stands_alone_and_is_imitated_when_it_solved_its_task() -> None:
    assembler = GroupAssembler(estimator=Advantage.SOLVED)
    group = assembler.add(make_episode("e0", group_size=1))
    assert group is not None
    assert compared([group], Advantage.SOLVED)[0].advantages == (1.0,)


def turns_with_mistakes(good: int) -> list[pb.Turn]:
    """A call that failed, a reply that could not be read, and calls with nothing wrong."""
    turns = [
        pb.Turn(number=number, model_call=pb.ModelCall(response=make_response()))
        for number in range(1, 3 + good)
    ]
    turns[0].tool_invocations.add().observation.failure.message = "unknown word"
    turns[1].model_call.response.action.malformed.message = "the reply was cut off"
    return turns


def test_mistakes_on_the_way_to_a_solution_are_not_imitated() -> None:
    episode = make_episode("e0", group_size=1, turns=turns_with_mistakes(good=1))
    group = GroupAssembler(estimator=Advantage.SOLVED).add(episode)
    assert group is not None
    assert len(episode.rows) == 3
    assert group.members[0].rows == episode.rows[2:]


def test_mistakes_alone_are_nothing_to_imitate() -> None:
    assembler = GroupAssembler(estimator=Advantage.SOLVED)
    episode = make_episode("e0", group_size=1, turns=turns_with_mistakes(good=0))
    assert assembler.add(episode) is None
    assert assembler.dropped == {Dropped.UNSOLVED: 1}


def test_mistakes_are_learnt_from_where_episodes_are_compared() -> None:
    assembler = GroupAssembler()
    assembler.add(make_episode("e0", turns=turns_with_mistakes(good=1)))
    group = assembler.add(make_episode("e1", solved=False))
    assert group is not None
    assert len(group.members[0].rows) == 3


def test_members_that_failed_are_not_imitated() -> None:
    assembler = GroupAssembler(estimator=Advantage.SOLVED)
    first, second = members(True, False)
    assembler.add(first)
    group = assembler.add(second)
    assert group is not None
    assert compared([group], Advantage.SOLVED)[0].advantages == (1.0, 0.0)


def test_where_nothing_was_solved_there_is_nothing_to_imitate() -> None:
    assembler = GroupAssembler(estimator=Advantage.SOLVED)
    assert assembler.add(make_episode("e0", solved=False, group_size=1)) is None
    assert assembler.dropped == {Dropped.UNSOLVED: 1}


def given(episode_id: str, score: float | None, **said: str) -> pb.FeedbackGiven:
    feedback = feedback_pb2.Feedback(id="f1", score=score, **said)  # type: ignore[arg-type]
    return pb.FeedbackGiven(episode_id=episode_id, group_id="g1", feedback=feedback)


def solved(trajectory: pb.Trajectory) -> bool:
    return episode_from_proto(trajectory, Limits(VOCABULARY)).features.solved


def test_the_first_score_is_the_outcome_whatever_a_check_said() -> None:
    awaited = AwaitedFeedback()
    awaited.keep(make_trajectory("liked", solved=False))
    awaited.keep(make_trajectory("disliked", solved=True))
    liked, disliked = awaited.scored(given("liked", 1)), awaited.scored(given("disliked", 0.5))
    assert liked
    assert disliked
    assert (solved(liked), solved(disliked)) == (True, False)
    assert awaited.scored(given("liked", 0)) is None


def test_words_alone_are_no_outcome() -> None:
    awaited = AwaitedFeedback()
    awaited.keep(make_trajectory("e1", outcomes=[]))
    assert awaited.scored(given("e1", None, comment="thanks")) is None
    assert awaited.scored(given("another", 1)) is None
    assert awaited.scored(given("e1", 1)) is not None


def test_a_group_ends_when_no_member_of_it_waits() -> None:
    awaited = AwaitedFeedback()
    awaited.keep(make_trajectory("e1", tenant="acme", group_id="g1"))
    waits, others = GroupKey("acme", "g1"), [GroupKey("acme", "g2"), GroupKey("globex", "g1")]
    assert not awaited.close(waits)
    assert all(map(awaited.close, others))
    assert awaited.closed == {waits}
    awaited.scored(given("e1", 1))
    assert awaited.close(waits)
    assert not awaited.closed


def test_more_than_may_wait_give_up_the_oldest() -> None:
    awaited = AwaitedFeedback(maximum=2)
    late = [awaited.keep(make_trajectory(f"e{number}")) for number in range(3)]
    assert [each and each.episode_id for each in late] == [None, None, "e0"]
    assert list(awaited.waiting) == ["e1", "e2"]


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


def make_versioned(id: str, *versions: str) -> Episode:
    calls = [pb.ModelCall(response=make_response(model_version=each)) for each in versions]
    turns = [pb.Turn(number=n, model_call=call) for n, call in enumerate(calls, 1)]
    found = make_trajectory(id, solved=id == "e0", turns=turns)
    return episode_from_proto(found, Limits(vocabulary=64))


def assembled(assembler: GroupAssembler, *oldest: str) -> Group:
    assembler.add(make_versioned("e0", "policy-demo-v9"))
    group = assembler.add(make_versioned("e1", *oldest))
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
