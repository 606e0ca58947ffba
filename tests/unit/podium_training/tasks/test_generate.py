"""Tasks come from a seed, are solved by their solutions, and no split knows the other's."""

import json
import re
from datetime import date
from fractions import Fraction
from functools import cache
from math import comb

import pytest

from podium_training.tasks.draft import solve
from podium_training.tasks.library import products
from podium_training.tasks.task import Split, Task
from podium_training.tasks.taskset import FAMILIES, TooFewTasks, generate


@cache
def train_tasks() -> list[Task]:
    return generate(280, Split.TRAIN)


@cache
def held_out_tasks() -> list[Task]:
    return generate(140, Split.HELD_OUT)


def test_the_same_seed_makes_the_same_tasks_and_another_seed_others() -> None:
    assert generate(140, Split.HELD_OUT) == held_out_tasks()
    others = {task.question for task in generate(140, Split.HELD_OUT, seed=1)}
    assert len(others & {task.question for task in held_out_tasks()}) < 70


def test_families_take_turns_and_no_question_comes_twice() -> None:
    assert {task.family for task in train_tasks()[: len(FAMILIES)]} == set(FAMILIES)
    assert (
        len({task.question for task in train_tasks()})
        == len({task.id for task in train_tasks()})
        == 280
    )


def test_no_question_of_one_split_is_in_the_other() -> None:
    assert not {task.question for task in train_tasks()} & {
        task.question for task in held_out_tasks()
    }


def test_no_entity_asked_about_in_one_split_is_asked_about_in_the_other() -> None:
    for family in FAMILIES:
        asked = [
            {entity for task in tasks if task.family == family for entity in _entities(task)}
            for tasks in (train_tasks(), held_out_tasks())
        ]
        assert all(asked), family
        assert not asked[0] & asked[1], family


@pytest.mark.parametrize("family", FAMILIES)
def test_solution_leads_to_an_answer_the_verifier_accepts(family: str) -> None:
    for task in (task for task in train_tasks() + held_out_tasks() if task.family == family):
        assert task.judge().judge(_answer(task)).solved, task
        assert not task.judge().judge("I do not know.").solved


def test_answers_are_right_by_other_means_than_the_tools() -> None:
    for task in train_tasks():
        arguments = task.solution[-1].arguments
        if task.family == "arithmetic":
            expected = eval(arguments["expression"], {"comb": comb})
            # Interest in binary fractions is within a cent of interest in decimal ones.
            cent = Fraction(1, 100) if isinstance(expected, float) else 0
            assert abs(Fraction(task.parameters["expected"]) - Fraction(expected)) <= cent
        if task.solution[-1].tool == "days_between":
            days = date.fromisoformat(arguments["end"]) - date.fromisoformat(arguments["start"])
            assert task.parameters["expected"] == days.days


def test_a_task_survives_its_line_of_json() -> None:
    assert [Task.from_json(task.to_json()) for task in held_out_tasks()] == held_out_tasks()


@pytest.mark.parametrize("line", ["", "[]", "{}", '{"id": "x", "split": "test"}'])
def test_a_line_that_is_no_task_is_rejected(line: str) -> None:
    with pytest.raises(ValueError, match="not a task"):
        Task.from_json(line)


def test_more_tasks_than_a_family_holds_are_rejected() -> None:
    with pytest.raises(TooFewTasks, match="retrieval hold"):
        generate(5000, Split.HELD_OUT, families=["retrieval"])


def _entities(task: Task) -> set[str]:
    """Words, places, products, dates and numbers that the question was filled with."""
    first = task.solution[0].arguments
    found = {each.name for each in products() if re.search(rf" {each.name}\b", task.question)}
    found |= set(re.findall(r"\d{4}-\d\d-\d\d", task.question.replace("YYYY-MM-DD", "")))
    found |= set(re.findall(r"dest = '(\w+)'", first.get("sql", "")))
    if task.family == "arithmetic":
        found |= set(re.findall(r"\d{2,}", first["expression"]))
    if task.family == "units":
        found.add(f"{first['from_unit']} to {first['to_unit']}")
    if task.family == "facts":
        found |= set(first.values())
    return found | {word for word in (first.get("word"),) if word}


def _answer(task: Task) -> str:
    last = task.solution[-1]
    if last.tool == "search_corpus":
        [product] = [each for each in products() if f" {each.name}" in task.question]
        return str(getattr(product, last.arguments["query"].split()[0]))
    found = solve(last)
    if last.tool == "query_database":
        return str(found["rows"][0][0])
    if task.family == "facts":
        return str(next(each for each in found.values() if each == task.parameters["expected"]))
    key = {"days_between": "days", "day_of_week": "weekday", "add_to_date": "date"}
    key["convert_units"] = "value"
    return json.dumps(found[key[last.tool]]) if last.tool in key else str(found)
