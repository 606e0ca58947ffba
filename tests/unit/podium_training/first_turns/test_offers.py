from random import Random

import pytest

from podium_training.first_turns.errors import NothingToLearn
from podium_training.first_turns.offers import TOOLS, Offers
from podium_training.tasks.task import Split, Task
from unit.podium_training.first_turns.offered import FAMILIES, TASKS, host, task
from unit.podium_training.first_turns.played import EXPERT, own

OTHERS = [f"other_{number}" for number in range(12)]


def drawn(*tasks: Task, count: int = 40) -> list[set[str]]:
    offers = Offers([host(*FAMILIES, *OTHERS)], EXPERT)
    lists = [offers.draw(tasks, Random(seed)).tools for seed in range(count)]
    return [{tool.name for tool in tools} - {EXPERT} for tools in lists]


def test_tasks_find_their_tools_among_others() -> None:
    found = drawn(*TASKS)
    assert all(names >= set(FAMILIES) for names in found)
    assert {len(names) for names in found} == set(TOOLS)
    assert set.union(*found) == {*FAMILIES, *OTHERS}


def test_where_there_is_no_room_for_all_it_is_chance_whose_tools_are_offered() -> None:
    tasks = [task(number, name) for number, name in enumerate((*FAMILIES, *OTHERS))]
    found = drawn(*tasks)
    assert all(len(names) in TOOLS for names in found)
    assert set.union(*found) == {*FAMILIES, *OTHERS}


def test_tools_that_judge_a_task_are_not_offered_to_it() -> None:
    look = {"look": {"tool": "other_1"}, "expected": []}
    judged = Task("sums-9", "sums", Split.TRAIN, "?", "state", look, ())
    assert not any("other_1" in names for names in drawn(judged))


def test_the_expert_has_the_prices_of_the_episode() -> None:
    offers = Offers([host("sums", large=price) for price in ("3.00", "4.00")], EXPERT)
    found = [offers.draw(TASKS, Random(seed)) for seed in range(20)]
    terms = {tool.terms for each in found for tool in each.tools if tool.name == EXPERT}
    assert sorted(each[:12] for each in terms) == ["large: $3.00", "large: $4.00"]


def test_tools_are_listed_by_name_as_a_platform_does() -> None:
    names = [tool.name for tool in Offers([host(*OTHERS)], EXPERT).draw(TASKS, Random(1)).tools]
    assert names == sorted(names)


def test_it_says_that_no_episode_had_experts() -> None:
    with pytest.raises(NothingToLearn, match="no solved episode with ask_expert"):
        Offers([own("o", "sums-1", ("add",))], EXPERT)
