"""A demonstration hands tasks to experts: by chance, and where their own tools are lacking."""

import json
from collections import Counter
from typing import Any

import pytest

from podium_training.demonstrations.solutions import NoDemonstration, Solutions
from podium_training.tasks.task import Call, Split, Task

MODELS = ["large", "small"]


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


TASKS = [make_task(number) for number in range(400)]
SOLUTIONS = Solutions(TASKS, "ask", 0.3)


def action(task: Task, *tools: str, before: str = "") -> dict[str, Any]:
    prompt = f"Problem: {task.question}\n\n{before}\nChoose."
    made: dict[str, Any] = json.loads(SOLUTIONS.action(prompt, make_schema(*tools)))
    return made


def test_a_share_of_the_tasks_asks_an_expert_each_as_often() -> None:
    actions = [action(task, "calculator", "ask") for task in TASKS]
    asked = Counter(made["arguments"].get("model", "") for made in actions)
    assert 0.2 < 1 - asked[""] / len(TASKS) < 0.4
    assert abs(asked["large"] - asked["small"]) < 40
    assert actions == [action(task, "calculator", "ask") for task in TASKS]


def test_without_its_own_tools_a_task_asks_and_answers_what_was_said() -> None:
    for task in TASKS[:20]:
        made = action(task, "ask")
        assert made["tool"] == "ask"
        before = f"1. ask {json.dumps(made['arguments'], separators=(',', ':'))} -> 1, 2\n"
        assert action(task, "ask", before=before) == {"answer": "1, 2"}


def test_without_an_expert_the_known_calls_are_made() -> None:
    made = action(TASKS[1], "calculator")
    assert made == {"tool": "calculator", "arguments": {"expression": "1 + 1"}}
    answered = action(TASKS[1], "calculator", before='1. calculator {"expression":"1 + 1"} -> 2')
    assert answered == {"answer": "2"}


def test_nothing_is_shown_after_a_failure_nor_without_a_way() -> None:
    task = TASKS[0]
    asked = action(task, "ask")["arguments"]
    failed = f"ask {json.dumps(asked, separators=(',', ':'))} -> error (timeout): late"
    with pytest.raises(NoDemonstration, match="ask failed"):
        action(task, "ask", before=failed)
    with pytest.raises(NoDemonstration, match="calculator is not offered"):
        action(task, "dictionary")
    with pytest.raises(NoDemonstration, match="no choice of models"):
        SOLUTIONS.action(f"Problem: {task.question}", make_schema("ask", models=[]))


def test_a_tool_that_is_not_offered_is_looked_for_and_then_called() -> None:
    for task in TASKS[:20]:
        looked = action(task, "convert", "find_tools")
        assert looked == {"tool": "find_tools", "arguments": {"query": "calculator"}}
        found = 'find_tools {"query":"calculator"} -> You may call these now: calculator'
        made = action(task, "convert", "find_tools", "calculator", before=found)
        assert made["tool"] == "calculator"
        with pytest.raises(NoDemonstration, match="calculator was not found"):
            action(task, "convert", "find_tools", before=found.replace(": calculator", ": clock"))
