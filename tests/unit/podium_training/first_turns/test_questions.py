from collections import Counter, defaultdict
from dataclasses import replace
from functools import cache
from itertools import islice
from random import Random

import pytest

from podium.episodes.v1.trajectory_pb2 import Trajectory
from podium_training.first_turns.contrast import OWN, choice, first_response
from podium_training.first_turns.errors import NothingToLearn
from podium_training.first_turns.offers import Offers
from podium_training.first_turns.questions import Shape, first_turns
from podium_training.grpo.data.convert import episode_from_proto
from podium_training.grpo.data.episodes import Limits
from unit.podium_training.first_turns.offered import FAMILIES, POOL, TASKS, demonstrator, host, task
from unit.podium_training.first_turns.played import EXPERT

SHAPE = Shape(tasks=3, choices=2)
TOOLS = (*FAMILIES, "other_1", "other_2")


@cache
def turns(count: int = 60, seed: int = 1) -> list[Trajectory]:
    offers = Offers([host(*TOOLS, large=price) for price in ("0.50", "5.00")], EXPERT)
    # One family has most tasks.
    tasks = [*TASKS, *(task(number) for number in range(2))]
    endless = first_turns(tasks, offers, SHAPE, demonstrator(), Random(seed))
    return list(islice(endless, count))


def steps(found: list[Trajectory]) -> list[list[Trajectory]]:
    return [found[at : at + SHAPE.turns] for at in range(0, len(found), SHAPE.turns)]


def test_no_family_is_rare_though_its_tasks_are() -> None:
    found = Counter(each.task_id.partition("-")[0] for each in turns())
    assert set(found) == set(FAMILIES)
    assert min(found.values()) > 60 / 6


def test_most_tasks_of_a_step_are_those_whose_choice_the_vectors_change() -> None:
    offers = Offers([host(*TOOLS)], EXPERT)
    # One expert is of use, and in one family alone.
    large = POOL.experts[0].model_copy(update={"right": 0.0, "families": {"sums": 0.95}})
    small = POOL.experts[1].model_copy(update={"right": 0.0})
    pool = POOL.model_copy(update={"experts": (large, small)})
    found = list(islice(first_turns(TASKS, offers, SHAPE, demonstrator(pool), Random(1)), 60))
    sums = [each for each in found if each.task_id.startswith("sums-")]
    assert len(sums) > len(found) / 2
    assert {choice(each, EXPERT) for each in sums} == {OWN, '{"model":"large"}'}


def test_the_tasks_of_a_step_share_their_tools_and_prices() -> None:
    for step in steps(turns()):
        assert len({each.task_id for each in step}) == SHAPE.tasks
        assert len({tuple(tool.name for tool in each.tools) for each in step}) == 1


def test_turns_whose_prompts_begin_alike_follow_each_other() -> None:
    for step in steps(turns()):
        likings = [tuple(each.preferences.tools) for each in step]
        assert likings == sorted(likings)


def test_whoever_the_demonstrator_would_ask_differs_by_the_vector() -> None:
    found = turns()
    ways: dict[str, set[str]] = defaultdict(set)
    for number, step in enumerate(steps(found)):
        for each in step:
            ways[f"{number}/{each.task_id}"].add(choice(each, EXPERT))
    assert sum(len(each) > 1 for each in ways.values()) > len(ways) / 2
    assert len({choice(each, EXPERT) for each in found}) == 3, "either model, and neither"


def test_who_is_liked_stands_in_the_prompt_and_in_the_vector() -> None:
    liked = [each for each in turns() if each.preferences.tools]
    assert liked
    for each in liked:
        [(name, weight)] = each.preferences.tools.items()
        [terms] = (tool.terms for tool in each.tools if tool.name == EXPERT)
        assert f", weight {weight:g}" in terms
        assert each.tool_names[-1] == name


def test_they_are_turns_that_a_trainer_takes() -> None:
    for each in turns(12):
        episode = episode_from_proto(each, Limits(vocabulary=1_000))
        assert episode.features.solved
        assert len(episode.rows) == 1
        assert first_response(each).completion_text


def test_tasks_that_cannot_be_shown_are_left_out() -> None:
    unsolved = replace(task(7), solution=None)
    # Its first line is another task's question.
    long = replace(task(8), question=f"{TASKS[0].question}\nShow every step.")
    shows = demonstrator(tasks=[*TASKS, unsolved, long])
    offers = Offers([host(*TOOLS)], EXPERT)
    found = islice(first_turns([*TASKS, unsolved, long], offers, SHAPE, shows, Random(1)), 60)
    assert {each.task_id for each in found} <= {each.id for each in TASKS}
    with pytest.raises(NothingToLearn, match="no task has a solution"):
        next(first_turns([unsolved, long], offers, SHAPE, shows, Random(1)))


def test_the_seed_decides() -> None:
    assert turns(12) == turns(12)
    assert turns(12) != turns(12, seed=2)
