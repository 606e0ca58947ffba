import json
import math
from collections.abc import Mapping
from functools import cache

import pytest

from integration.podium_training.bundled_policy.first_turns import (
    bundled_tool,
    logprobs,
    policy,
    prompt_ids,
    reply,
    row,
)
from orchestrator_inference.models import CallEstimate, Preferences, PromptTool
from podium_kit.money import Money
from podium_training.gate.bootstrap import paired_interval
from podium_training.tasks.task import Split
from podium_training.tasks.taskset import generate

# Eight minutes of a processor: 500 prompts are read by the whole model.
pytestmark = [pytest.mark.training, pytest.mark.timeout(900)]

TASKS = 16
FAMILIES = ("arithmetic", "units", "dates", "facts")
TOOLS = ("add_to_date", "calculator", "convert_units", "country_facts", "element_facts")
OWN = ""
# What a call of each model is expected to cost, in US dollars, and to take, in seconds. The
# specialists' prices are doubled, as a rollout's may be: at their own, each is the best choice in
# its domain, and to like it changes nothing.
EXPERTS = {
    "generalist-large": ("1.25/M in + $10.00/M out", "0.005", 20.0),
    "generalist-small": ("0.25/M in + $2.00/M out", "0.0002", 2.0),
    "mathematician": ("1.60/M in + $1.60/M out", "0.002", 10.0),
    "librarian": ("1.80/M in + $1.80/M out", "0.002", 10.0),
}
VECTORS = {
    "accuracy": Preferences(1.0, 0.0, 0.0),
    "cost": Preferences(1.0, 0.9, 0.0),
    "speed": Preferences(1.0, 0.0, 0.9),
    "balanced": Preferences(1.0, 0.4, 0.4),
}
LIKED = 0.9
Chances = Mapping[str, float]


def ask_expert(weights: Mapping[str, float]) -> PromptTool:
    """The simulated experts of bundled/experts.yaml, as a platform offers them."""
    terms = "; ".join(
        f"{alias}: ${price}, ${cost} a call, {latency_s:g} s, 99%"
        + (f", weight {weights[alias]:g}" if alias in weights else "")
        for alias, (price, cost, latency_s) in EXPERTS.items()
    )
    schema = {
        "type": "object",
        "properties": {"model": {"enum": list(EXPERTS)}},
        "required": ["model"],
    }
    described = (
        "Asks a larger language model to solve the task. It takes no question: it sees the task and"
        " earlier results. - generalist-large: Right in four of five tasks of every kind; slow. -"
        " generalist-small: Right in half of the tasks of every kind; quick. - mathematician: Best"
        " at calculation, units, dates and code; weak elsewhere. - librarian: Best at facts, words,"
        " holidays and documents; weak elsewhere."
    )
    estimates = tuple(
        CallEstimate(alias, Money.parse(cost, "USD"), latency_s, weights.get(alias, 0.0))
        for alias, (_, cost, latency_s) in EXPERTS.items()
    )
    return PromptTool("ask_expert", described, json.dumps(schema), terms=terms, estimates=estimates)


@cache
def chances(vector: str, liked: str = "") -> list[Chances]:
    """Returns for each task how likely each expert is asked first, and OWN: none of them is."""
    tasks = generate(TASKS, Split.HELD_OUT, seed=11, families=FAMILIES)
    weights = {liked: LIKED} if liked else {}
    tools = sorted([*map(bundled_tool, TOOLS), ask_expert(weights)], key=lambda tool: tool.name)
    rows = [
        row(
            prompt_ids(task.question, tools, VECTORS[vector]), reply("ask_expert", {"model": alias})
        )
        for task in tasks
        for alias in EXPERTS
    ]
    likely = [math.exp(float(each.sum())) for each in logprobs(policy(), rows, tools)]
    found: list[Chances] = []
    for number in range(len(tasks)):
        at = number * len(EXPERTS)
        asked = dict(zip(EXPERTS, likely[at : at + len(EXPERTS)], strict=True))
        found.append(asked | {OWN: 1.0 - sum(asked.values())})
    return found


def surely_more(more: list[float], less: list[float]) -> bool:
    """Returns whether a value is higher on the same tasks, with 97.5 % confidence."""
    differences = [one - other for one, other in zip(more, less, strict=True)]
    return paired_interval(differences, 0.975).lower > 0


def expected(of: Mapping[str, float], vector: str, liked: str = "") -> list[float]:
    """The mean of a value of experts, for each task; OWN's is 0."""
    return [
        sum(chance * of.get(alias, 0.0) for alias, chance in each.items())
        for each in chances(vector, liked)
    ]


def test_weight_on_cost_makes_first_calls_cheaper() -> None:
    costs = {alias: float(cost) for alias, (_, cost, _) in EXPERTS.items()}
    assert surely_more(expected(costs, "accuracy"), expected(costs, "cost"))


def test_weight_on_latency_makes_first_calls_quicker() -> None:
    seconds = {alias: latency_s for alias, (_, _, latency_s) in EXPERTS.items()}
    assert surely_more(expected(seconds, "accuracy"), expected(seconds, "speed"))


@pytest.mark.parametrize("alias", EXPERTS)
def test_weight_on_a_model_makes_it_asked_more_often(alias: str) -> None:
    calls = {alias: 1.0}
    assert surely_more(expected(calls, "balanced", alias), expected(calls, "balanced"))
