"""The demonstrator's actions, and the course of tasks that it shows."""

import json
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from podium_kit.bundled_files import bundled_folder
from podium_training.experts.pool import Pool
from podium_training.imitation.course import Demo, draw_tasks, write
from podium_training.imitation.solutions import NoDemonstration, Solutions, mistaken
from podium_training.tasks.kinds import kinds
from podium_training.tasks.task import Call, Split, Task
from podium_training.tasks.taskset import FAMILIES

MODELS = ["large", "small"]
POOL = Pool.model_validate(
    {
        "tool": "ask",
        "description": "Asks.",
        "experts": [
            {"alias": "large", "description": "-", "sku": "l", "latencyS": 20, "right": 0.95},
            {"alias": "small", "description": "-", "sku": "s", "latencyS": 2, "right": 0.7},
        ],
    }
)
LISTED = "- ask() [large: ${}/M in + ${}/M out, 20 s{}; small: $0.10/M in + $0.40/M out, 2 s{}]"
DEAR, CHEAP = 10, 0.4


def make_task(number: int) -> Task:
    call = Call("calculator", {"expression": f"{number} + 1"})
    parameters = {"expected": str(number + 1)}
    question = f"Add 1 to {number}!"
    return Task(f"t{number}", "f", Split.TRAIN, question, "exact", parameters, (call,))


def make_schema(*tools: str, models: list[str] = MODELS) -> dict[str, Any]:
    arguments: dict[str, dict[str, Any]] = {
        "calculator": {"expression": {"type": "string"}},
        "ask": {"model": {"enum": models}} if models else {},
    }
    calls = [
        {
            "properties": {
                "tool": {"const": tool},
                "arguments": {"properties": arguments.get(tool, {})},
            }
        }
        for tool in tools
    ]
    return {"anyOf": [*calls, {"properties": {"answer": {"type": "string"}}}]}


TASKS = [make_task(number) for number in range(20)]
SOLUTIONS = Solutions(TASKS, POOL)
ACCURACY = "Weights: outcome 1, cost 0, latency 0."
COST = "Weights: outcome 1, cost 1, latency 0."
SPEED = "Weights: outcome 1, cost 0, latency 1."


def action(
    task: Task,
    *tools: str,
    before: str = "",
    weights: str = ACCURACY,
    large: float = DEAR,
    liked: tuple[str, str] = ("", ""),
) -> dict[str, Any]:
    system = LISTED.format(large, large, *liked)
    prompt = f"Problem: {task.question}\n\n{before}\n{weights}\nChoose."
    made: dict[str, Any] = json.loads(SOLUTIONS.action(system, prompt, make_schema(*tools)))
    return made


def asked(made: dict[str, Any]) -> str:
    return str(made["arguments"].get("model", made["tool"]))


@pytest.mark.parametrize("task", TASKS[:3])
def test_without_its_own_tools_a_task_goes_to_whom_the_weights_prefer(task: Task) -> None:
    assert asked(action(task, "ask")) == "large"
    assert asked(action(task, "ask", weights=COST)) == "small"
    assert asked(action(task, "ask", weights=SPEED)) == "small"


def test_prices_and_a_models_own_weight_decide() -> None:
    task = TASKS[0]
    assert asked(action(task, "ask", weights=COST, large=0.1)) == "large"
    assert asked(action(task, "ask", liked=("", ", weight 1"))) == "small"
    assert asked(action(task, "calculator", "ask", liked=(", weight 1", ""))) == "large"


def test_weights_of_models_beside_the_others_change_nothing_of_those() -> None:
    for weights in (ACCURACY, COST, SPEED):
        beside = f"{weights[:-1]}, small 0.9."
        assert action(TASKS[0], "ask", weights=beside) == action(TASKS[0], "ask", weights=weights)


@pytest.mark.parametrize(("weights", "is_clear"), [(ACCURACY, False), (COST, True)])
def test_what_is_nearly_as_good_is_not_shown_where_choices_are_to_be_clear(
    weights: str, is_clear: bool
) -> None:
    """The small one earns a quarter less where it is right less often, or twice as much."""
    clear = Solutions(TASKS, POOL, margin=0.3)
    prompt = f"Problem: {TASKS[0].question}\n\n{weights}\nChoose."
    listed, schema = LISTED.format(DEAR, DEAR, "", ""), make_schema("ask")
    if is_clear:
        assert "small" in clear.action(listed, prompt, schema)
    else:
        with pytest.raises(NoDemonstration, match="nearly the same"):
            clear.action(listed, prompt, schema)


def test_without_a_preference_chance_says_whom_to_ask_the_same_in_every_turn() -> None:
    undecided = Solutions([make_task(number) for number in range(400)], POOL, decided=False)
    system, schema = LISTED.format(DEAR, DEAR, "", ""), make_schema("calculator", "ask")

    def chosen(number: int, weights: str, before: str = "") -> str:
        prompt = f"Problem: {make_task(number).question}\n\n{before}\n{weights}\nChoose."
        return asked(json.loads(undecided.action(system, prompt, schema)))

    for weights in (ACCURACY, COST):
        counts = Counter(chosen(number, weights) for number in range(400))
        assert 160 < counts["calculator"] < 240
        assert min(counts["large"], counts["small"]) > 60
    assert all(chosen(number, COST) == chosen(number, COST, "Earlier.") for number in range(9))


def test_what_its_own_tools_solve_a_task_does_itself_where_money_counts() -> None:
    task = TASKS[0]
    assert asked(action(task, "calculator", "ask", weights=COST)) == "calculator"
    assert asked(action(task, "calculator", "ask", weights=ACCURACY)) == "large"


def test_who_is_asked_stays_the_same_and_what_was_said_is_the_answer() -> None:
    for task in TASKS:
        made = action(task, "ask")
        before = f"1. ask {json.dumps(made['arguments'], separators=(',', ':'))} -> 1, 2\n"
        assert action(task, "ask", before=before) == {"answer": "1, 2"}


def test_an_expert_of_unknown_price_is_not_asked() -> None:
    schema = make_schema("ask")
    prompt = f"Problem: {TASKS[0].question}"
    with pytest.raises(NoDemonstration, match="quotes no price"):
        SOLUTIONS.action("- ask() [large: price unknown, 20 s]", prompt, schema)


def test_without_an_expert_the_known_calls_are_made() -> None:
    made = action(TASKS[1], "calculator")
    assert made == {"tool": "calculator", "arguments": {"expression": "1 + 1"}}
    answered = action(TASKS[1], "calculator", before='1. calculator {"expression":"1 + 1"} -> 2')
    assert answered == {"answer": "2"}


def test_nothing_is_shown_after_a_failure_nor_without_a_way() -> None:
    task = TASKS[0]
    arguments = action(task, "ask")["arguments"]
    failed = f"ask {json.dumps(arguments, separators=(',', ':'))} -> error (timeout): late"
    with pytest.raises(NoDemonstration, match="ask failed"):
        action(task, "ask", before=failed)
    with pytest.raises(NoDemonstration, match="calculator is not offered"):
        action(task, "dictionary")
    with pytest.raises(NoDemonstration, match="no choice of models"):
        SOLUTIONS.action("", f"Problem: {task.question}", make_schema("ask", models=[]))


def test_a_tool_that_is_not_offered_is_looked_for_and_then_called() -> None:
    for task in TASKS:
        looked = action(task, "convert", "find_tools")
        assert looked == {"tool": "find_tools", "arguments": {"query": "calculator"}}
        found = 'find_tools {"query":"calculator"} -> You may call these now: calculator'
        made = action(task, "convert", "find_tools", "calculator", before=found)
        assert made["tool"] == "calculator"
        with pytest.raises(NoDemonstration, match="calculator was not found"):
            action(task, "convert", "find_tools", before=found.replace(": calculator", ": clock"))


def test_a_call_that_is_garbled_first_is_made_right_after_its_error() -> None:
    call = Call("calculator", {"expression": "sqrt(256)"})
    task = replace(TASKS[0], solution=(call,))
    clumsy = Solutions([task], mistakes=1)

    def next_action(before: str = "") -> dict[str, Any]:
        prompt = f"Problem: {task.question}\n\n{before}\nChoose."
        made: dict[str, Any] = json.loads(clumsy.action("", prompt, make_schema("calculator")))
        return made

    wrong = next_action()
    assert wrong["tool"] == "calculator"
    garbled = wrong["arguments"]["expression"]
    assert garbled != "sqrt(256)"
    assert sorted(garbled) == sorted("sqrt(256)")
    failed = f'1. calculator {{"expression":"{garbled}"}} -> error (invalid_arguments): unknown'
    right = next_action(failed)
    assert right == {"tool": "calculator", "arguments": call.arguments}
    done = f'{failed}\n2. calculator {{"expression":"sqrt(256)"}} -> 16'
    assert next_action(done) == {"answer": task.answer}
    with pytest.raises(NoDemonstration, match="did not fail"):
        next_action(f'1. calculator {{"expression":"{garbled}"}} -> 16')


def test_what_has_no_free_word_is_not_garbled() -> None:
    random = Random(1)
    assert mistaken(Call("convert", {"value": 3, "to": "12 km"}), {}, random) is None
    chosen = Call("convert", {"unit": "metre"})
    assert mistaken(chosen, {"unit": {"enum": ["metre"]}}, random) is None


COUNT = 600


@cache
def course() -> list[Task]:
    return list(draw_tasks(COUNT, seed=1))


@cache
def demo() -> Demo:
    return Demo(bundled_folder() / "tasks")


def asks(question: str) -> Task:
    return Task("id", "facts", Split.TRAIN, question, "contains", {"expected": "x"})


def test_a_family_comes_up_as_often_as_it_has_kinds() -> None:
    every = sum(len(kinds(family)) for family in FAMILIES)
    for family in FAMILIES:
        count = sum(task.family == family for task in course())
        assert 0.3 < count / (COUNT * len(kinds(family)) / every) < 3, family


def test_the_same_seed_makes_the_same_course() -> None:
    assert list(draw_tasks(40, seed=1)) == course()[:40]


def test_tasks_are_written_line_by_line(tmp_path: Path) -> None:
    write(tmp_path / "tasks.jsonl", 20, seed=1)
    lines = (tmp_path / "tasks.jsonl").read_text().splitlines()
    assert [Task.from_json(line) for line in lines] == course()[:20]


@pytest.mark.parametrize(
    "question",
    [
        "capital of Burkina Faso",
        "On which weekday was November 9, 1989?",
        "What is 2,043 times 1789?",
        "How far is KEF from OSL?",
        "What is 26.2 miles in feet?",
        "Who heads the Turku office of Larkfield?",
        'What is the opposite of "victory"?',
        "When is the new moon in August 2026?",
        "How many s are in Mississippi?",
    ],
)
def test_a_question_on_what_the_demo_asks_is_left_out(question: str) -> None:
    assert demo().asks_like(asks(question))


@pytest.mark.parametrize(
    "question",
    ["capital of Peru", "What is 17% of 2,340?", "Is 2026-05-01 a holiday in Poland?", "3 x 5"],
)
def test_another_question_is_not(question: str) -> None:
    assert not demo().asks_like(asks(question))


def test_every_question_of_the_demo_is_like_the_demo() -> None:
    for path in (bundled_folder() / "tasks").glob("*.yaml"):
        for task in yaml.safe_load(path.read_text())["tasks"]:
            assert demo().asks_like(asks(task["question"])), task["question"]
