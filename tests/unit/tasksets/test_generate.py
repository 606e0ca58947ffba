"""Tasks come from a seed, are solved by their solutions, and no split knows the other's."""

import json
from datetime import date
from fractions import Fraction
from types import ModuleType

import pytest

from tasksets.draft import Wordings, solve
from tasksets.families import arithmetic, composition, dates, dictionary, retrieval, sql, units
from tasksets.library import products
from tasksets.splits import split_of
from tasksets.task import Split, Task
from tasksets.taskset import FAMILIES, TooFewTasks, generate

TRAIN = generate(280, Split.TRAIN)
HELD_OUT = generate(140, Split.HELD_OUT)
MODULES = (arithmetic, composition, dates, dictionary, retrieval, sql, units)


def test_the_same_seed_makes_the_same_tasks_and_another_seed_others() -> None:
    assert generate(140, Split.HELD_OUT) == HELD_OUT
    others = {task.question for task in generate(140, Split.HELD_OUT, seed=1)}
    assert len(others & {task.question for task in HELD_OUT}) < 70


def test_families_take_turns_and_no_question_comes_twice() -> None:
    assert {task.family for task in TRAIN[:7]} == set(FAMILIES)
    assert len({task.question for task in TRAIN}) == len({task.id for task in TRAIN}) == 280


def test_no_question_of_one_split_is_in_the_other() -> None:
    assert not {task.question for task in TRAIN} & {task.question for task in HELD_OUT}


def test_no_wording_is_in_both_splits() -> None:
    for wordings in (w for module in MODULES for w in _wordings(module)):
        assert not set(wordings.train) & set(wordings.held_out)


def test_entities_of_the_splits_are_disjoint() -> None:
    for pool in (dictionary.words(), sql.destinations(), units.PAIRS, [p.name for p in products()]):
        shares = {split: [each for each in pool if split_of(each) is split] for split in Split}
        assert all(shares.values())
        assert not set(shares[Split.TRAIN]) & set(shares[Split.HELD_OUT])
    for split, tasks in ((Split.TRAIN, TRAIN), (Split.HELD_OUT, HELD_OUT)):
        for task in tasks:
            for word in (call.arguments.get("word") for call in task.solution):
                assert word is None or split_of(word) is split


@pytest.mark.parametrize("family", FAMILIES)
def test_solution_leads_to_an_answer_the_verifier_accepts(family: str) -> None:
    for task in (task for task in TRAIN + HELD_OUT if task.family == family):
        assert task.judge().judge(_answer(task)).solved, task
        assert not task.judge().judge("I do not know.").solved


def test_answers_are_right_by_other_means_than_the_tools() -> None:
    for task in TRAIN:
        arguments = task.solution[-1].arguments
        if task.family == "arithmetic":
            expected = eval(arguments["expression"], {})
            assert Fraction(task.parameters["expected"]) == expected
        if task.solution[-1].tool == "days_between":
            days = date.fromisoformat(arguments["end"]) - date.fromisoformat(arguments["start"])
            assert task.parameters["expected"] == days.days


def test_a_task_survives_its_line_of_json() -> None:
    assert [Task.from_json(task.to_json()) for task in HELD_OUT] == HELD_OUT


@pytest.mark.parametrize("line", ["", "[]", "{}", '{"id": "x", "split": "test"}'])
def test_a_line_that_is_no_task_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="not a task"):
        Task.from_json(line)


def test_more_tasks_than_a_family_holds_are_refused() -> None:
    with pytest.raises(TooFewTasks, match="retrieval hold"):
        generate(5000, Split.HELD_OUT, families=["retrieval"])


def _wordings(module: ModuleType) -> list[Wordings]:
    constants = [value for name, value in vars(module).items() if name.isupper()]
    tables = [each for value in constants if isinstance(value, dict) for each in value.values()]
    return [each for each in [*constants, *tables] if isinstance(each, Wordings)]


def _answer(task: Task) -> str:
    last = task.solution[-1]
    if last.tool == "search_corpus":
        [product] = [each for each in products() if f" {each.name}" in task.question]
        return str(getattr(product, last.arguments["query"].split()[0]))
    found = solve(last)
    if last.tool == "query_database":
        return str(found["rows"][0][0])
    key = {"days_between": "days", "day_of_week": "weekday", "add_to_date": "date"}
    key |= {"convert_units": "value", "dictionary": "antonyms"}
    return json.dumps(found[key[last.tool]]) if last.tool in key else str(found)
