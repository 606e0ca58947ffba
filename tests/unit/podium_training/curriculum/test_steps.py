"""What every step of an imitation run learns from."""

from collections.abc import Sequence
from itertools import islice
from random import Random

import pytest

from podium.episodes.v1.trajectory_pb2 import Trajectory
from podium_training.curriculum.errors import NoCurriculum
from podium_training.curriculum.steps import Mix, steps
from unit.podium_training.curriculum.played import EXPERT, TOKENIZER, asked, own

MIX = Mix(tasks=2, choices=2, asked=1, own=3, lists=1)


def episodes(tasks: int = 4) -> list[Trajectory]:
    contrasted = [
        each
        for number in range(tasks)
        for each in (own(f"o{number}", f"t-{number}"), asked(f"a{number}", f"t-{number}", "small"))
    ]
    alone = [own(f"w{number}", f"sql-{number}", ("add",)) for number in range(20)]
    return [*contrasted, *alone, own("w", "dates-1", ("add",)), own("v", "dates-2", ("add",))]


def ordered(found: Sequence[Trajectory], count: int = 6, mix: Mix = MIX) -> list[list[Trajectory]]:
    return list(islice(steps(found, EXPERT, mix, TOKENIZER, Random(3)), count))


def test_every_step_has_contrasts_and_whole_episodes_with_experts_and_without() -> None:
    for step in ordered(episodes()):
        assert len(step) == MIX.groups
        assert [len(each.turns) for each in step] == [1] * 4 + [2] * 4
        assert len({each.task_id for each in step[:4]}) == MIX.tasks
        assert [EXPERT in each.tool_names for each in step[4:]] == [True, False, False, False]


def test_all_that_was_played_comes_before_anything_comes_again() -> None:
    first_two = [each.episode_id for step in ordered(episodes(), 2) for each in step[:4]]
    assert sorted(first_two) == sorted(f"{kind}{number}" for kind in "oa" for number in range(4))


def test_rare_families_come_as_often_as_frequent_ones() -> None:
    doing = [each for step in ordered(episodes(), 8) for each in step[5:]]
    assert sum(each.task_id.startswith("dates") for each in doing) == len(doing) // 2


def test_contrasts_of_a_step_share_their_tools_and_prices() -> None:
    expensive = episodes()
    for each in expensive:
        each.price_factors["add"] = "3"
    for step in ordered([*episodes(), *expensive]):
        assert len({tuple(sorted(each.price_factors.items())) for each in step[:5]}) == 1


def test_the_seed_decides_the_order() -> None:
    assert ordered(episodes()) == ordered(episodes())


def test_it_says_which_episodes_are_missing() -> None:
    with_experts = [each for each in episodes() if EXPERT in each.tool_names]
    with pytest.raises(NoCurriculum, match="no solved episode without ask_expert"):
        ordered(with_experts)
    with pytest.raises(NoCurriculum, match=r"no list of tools has 2 tasks.*--policies-per-task"):
        ordered(episodes(tasks=1))
