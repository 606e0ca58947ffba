"""Groups are compared once, when they are complete, and dropped with a reason."""

import itertools
from typing import Any

import pytest

from grpo.advantages import Advantage
from grpo.convert import episode_from_proto
from grpo.episodes import Episode, Limits
from grpo.groups import Dropped, Group, GroupAssembler, GroupRules
from unit.grpo.trajectories import make_trajectory

LIMITS = Limits(vocabulary=64)


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
    assert group.advantages[0] == pytest.approx(-group.advantages[1])


def test_groups_may_arrive_interleaved_and_in_any_order() -> None:
    episodes = [
        make_episode(f"{group}{n}", solved=n == 0, group_id=group, group_size=3)
        for group, n in itertools.product("ab", range(3))
    ]
    assembler = GroupAssembler()
    found = [group for each in reversed(episodes) if (group := assembler.add(each))]
    assert [group.id for group in found] == ["b", "a"]
    assert all(len(group.members) == 3 for group in found)


def test_a_record_that_comes_twice_is_one_episode() -> None:
    assembler = GroupAssembler()
    first, second = members(True, False)
    assert (assembler.add(first), assembler.add(first)) == (None, None)
    group = assembler.add(second)
    assert group is not None
    assert len(group.members) == 2
    assert assembler.dropped["duplicate"] == 1


def test_a_member_that_never_comes_is_absent_and_no_failure() -> None:
    assembler = GroupAssembler()
    first, second, _ = members(True, False, True)
    assembler.add(first)
    assembler.add(second)
    group = assembler.bury("e2", "g1", 3)
    assert group is not None
    assert [member.id for member in group.members] == ["e0", "e1"]


def test_a_group_of_too_few_members_is_dropped() -> None:
    assembler = GroupAssembler()
    assembler.add(members(True, False, size=8)[0])
    for number in range(7):
        assembler.bury(f"gone{number}", "g1", 8)
    assert assembler.dropped == {Dropped.TOO_FEW: 1}
    assert not assembler.open


def test_a_group_whose_members_earn_the_same_teaches_nothing() -> None:
    assembler = GroupAssembler()
    for episode in members(False, False):
        assert assembler.add(episode) is None
    assert assembler.dropped == {Dropped.ZERO_VARIANCE: 1}


def test_members_under_other_preferences_are_not_compared() -> None:
    assembler = GroupAssembler()
    assembler.add(make_episode("e0"))
    assembler.add(make_episode("e1", solved=False, preferences={"outcome": 0.5}))
    assert assembler.dropped == {Dropped.MIXED: 1}


def test_a_deadline_closes_a_group_with_those_who_came() -> None:
    assembler = GroupAssembler(GroupRules(members_min_share=0.5))
    for episode in members(True, False, size=4):
        assembler.add(episode)
    group = assembler.close("g1")
    assert group is not None
    assert len(group.members) == 2
    assert assembler.close("g1") is None


def test_a_demonstration_stands_alone_and_is_imitated_when_it_solved_its_task() -> None:
    assembler = GroupAssembler(estimator=Advantage.SOLVED)
    group = assembler.add(make_episode("e0", group_size=1))
    assert group is not None
    assert group.advantages == (1.0,)


def test_members_that_failed_are_not_imitated() -> None:
    assembler = GroupAssembler(estimator=Advantage.SOLVED)
    first, second = members(True, False)
    assembler.add(first)
    group = assembler.add(second)
    assert group is not None
    assert group.advantages == (1.0, 0.0)


def test_where_nothing_was_solved_there_is_nothing_to_imitate() -> None:
    assembler = GroupAssembler(estimator=Advantage.SOLVED)
    assert assembler.add(make_episode("e0", solved=False, group_size=1)) is None
    assert assembler.dropped == {Dropped.UNSOLVED: 1}
