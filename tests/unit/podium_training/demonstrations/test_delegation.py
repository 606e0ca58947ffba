"""A demonstration hands a task to the expert where preference and the learner's strength say so."""

import json

import pytest

from podium_training.demonstrations.delegation import Delegation
from podium_training.demonstrations.solutions import NoDemonstration, Solutions
from podium_training.gate import Evaluated
from podium_training.tasks.task import Call, Split, Task
from tool_registry.policies.presets import INSTRUCTIONS

EXPERT = "ask_expert"
ACCURACY, COST = INSTRUCTIONS["accuracy-first"], INSTRUCTIONS["cost-first"]


def make_task(number: int, tool: str = "calculator") -> Task:
    name = f"t{number}"
    call = Call(tool, {"expression": f"{number} + 1"})
    parameters = {"expected": str(number + 1)}
    return Task(name, "f", Split.TRAIN, f"Add 1 to {number}!", "exact", parameters, (call,))


def make_evaluated(number: int, *, right: bool) -> Evaluated:
    return Evaluated(
        task_id=f"t{number}",
        seed=0,
        score=float(right),
        cost=None,
        latency_s=1.0,
        actions=2,
        malformed_actions=0,
        tool_calls=1,
        failed_tool_calls=0,
        model_versions=("m",),
    )


def make_delegation(right: int, wrong: int) -> Delegation:
    tasks = [make_task(number) for number in range(right + wrong)]
    episodes = [make_evaluated(number, right=number < right) for number in range(right + wrong)]
    return Delegation(EXPERT, tasks, episodes)


@pytest.mark.parametrize(
    ("right", "wrong", "delegated"),
    [
        (0, 8, {"accuracy", "cost"}),
        # Two of three: worth a dear expert to who asks for accuracy alone.
        (5, 2, {"accuracy"}),
        (18, 0, set()),
        # Nothing is known of it: half.
        (0, 0, {"accuracy"}),
    ],
)
def test_a_preference_that_counts_money_hands_over_later(
    right: int, wrong: int, delegated: set[str]
) -> None:
    delegation, task = make_delegation(right, wrong), make_task(99)
    prompts = {"accuracy": f"Problem: x\n\n{ACCURACY}", "cost": f"Problem: x\n\n{COST}"}
    handed = {name for name, prompt in prompts.items() if delegation.hands_over(task, prompt)}
    assert handed == delegated


def test_kinds_differ_by_the_tools_they_take() -> None:
    delegation = make_delegation(18, 0)
    assert not delegation.hands_over(make_task(5), ACCURACY)
    assert delegation.hands_over(make_task(5, "convert_units"), ACCURACY)


def schema(*tools: str) -> dict[str, object]:
    arguments = {"type": "object", "properties": {"expression": {}}}
    return {
        "anyOf": [{"properties": {"tool": {"const": t}, "arguments": arguments}} for t in tools]
    }


def test_the_expert_is_asked_once_where_it_is_offered_and_its_answer_is_passed_on() -> None:
    tasks = [make_task(number) for number in range(4)]
    episodes = [make_evaluated(number, right=False) for number in range(4)]
    solutions = Solutions(tasks, Delegation(EXPERT, tasks, episodes))
    prompt = f"Problem: {tasks[3].question}\n\n{ACCURACY}"
    offered = schema("calculator", EXPERT)
    assert json.loads(solutions.action(prompt, offered)) == {"tool": EXPERT, "arguments": {}}
    known = f"{prompt}\n\nKnown: {EXPERT} {{}} -> 4"
    assert json.loads(solutions.action(known, offered)) == {"answer": "4"}
    alone = json.loads(solutions.action(prompt, schema("calculator")))
    assert alone == {"tool": "calculator", "arguments": {"expression": "3 + 1"}}


def test_no_demonstration_makes_up_what_no_call_gave() -> None:
    solutions = Solutions([make_task(3)])
    prompt = f"Problem: {make_task(3).question}"
    with pytest.raises(NoDemonstration, match="calculator is not offered"):
        solutions.action(prompt, schema("dictionary"))
    failed = f'{prompt}\n\n- calculator {{"expression":"3 + 1"}} -> error (timeout): 2 s'
    with pytest.raises(NoDemonstration, match="calculator failed"):
        solutions.action(failed, schema("calculator"))


def test_after_an_expert_that_failed_comes_the_own_solution() -> None:
    tasks = [make_task(number) for number in range(4)]
    episodes = [make_evaluated(number, right=False) for number in range(4)]
    solutions = Solutions(tasks, Delegation(EXPERT, tasks, episodes))
    prompt = f"Problem: {tasks[3].question}\n\n- {EXPERT} {{}} -> error (unavailable): busy"
    offered = schema("calculator", EXPERT)
    call = {"tool": "calculator", "arguments": {"expression": "3 + 1"}}
    assert json.loads(solutions.action(prompt, offered)) == call
    done = f'{prompt}\n- calculator {{"expression":"3 + 1"}} -> 4'
    assert json.loads(solutions.action(done, offered)) == {"answer": "4"}


def test_the_expert_knows_the_answer_of_the_longest_question_it_is_asked() -> None:
    solutions = Solutions([make_task(1), make_task(11)])
    assert solutions.expert_answer("Answer briefly.\nAdd 1 to 11! Be quick.") == "12"
    with pytest.raises(NoDemonstration, match="no task asks"):
        solutions.expert_answer("Who are you?")
