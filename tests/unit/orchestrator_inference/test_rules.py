"""Rules that decide in place of a model."""

import json
from dataclasses import replace
from decimal import Decimal

import pytest

from orchestrator_inference.errors import EmptyTask, ModelNotFound
from orchestrator_inference.models import (
    ActionToolCall,
    CallEstimate,
    Competence,
    Observation,
    PastTurn,
    Preferences,
    PromptTool,
    Situation,
    TurnRules,
)
from orchestrator_inference.rules import decided_by_rule
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.models.rules import RULE_SKU
from podium_kit.money import Money

TASK = "What is 6*7?"
ASK = json.dumps(
    {
        "type": "object",
        "properties": {
            "model": {"enum": ["large", "small", "unpriced"]},
            "question": {"type": "string"},
            "depth": {"type": "integer"},
        },
        "required": ["question"],
    }
)


def way(alias: str, cost: str, latency_s: float) -> CallEstimate:
    return CallEstimate(alias, Money(Decimal(cost), "USD") if cost else None, latency_s)


CALCULATOR = PromptTool("calculator", "", "{}", estimates=(way("", "0.000001", 0.01),))
EXPERTS = PromptTool(
    "ask",
    "",
    ASK,
    estimates=(way("large", "0.004", 22), way("unpriced", "", 1), way("small", "0.0004", 2)),
)


def situation(rule: str, *observed: Observation, **changes: object) -> Situation:
    turns = tuple(
        PastTurn("{}", decided_by_rule(situation(rule)).action, (each,)) for each in observed
    )
    asked = Situation("episode/1/model/0", TASK, rule, tools=(CALCULATOR, EXPERTS), turns=turns)
    return replace(asked, **changes)  # type: ignore[arg-type]


def asked(found: Situation) -> str:
    """The model that the rule asks next."""
    [call] = decided_by_rule(found).action.calls
    assert call.tool_name == "ask"
    arguments = json.loads(call.arguments_json)
    assert arguments["question"] == TASK
    return str(arguments["model"])


def observed(alias: str, content: str = "", failure: str = "") -> Observation:
    arguments = json.dumps({"model": alias, "question": TASK})
    failed = ToolFailure(FailureKind.UNAVAILABLE, failure) if failure else None
    return Observation(ActionToolCall(0, "ask", arguments), content, failed)


@pytest.mark.parametrize(
    ("rule", "weights", "first"),
    [
        ("rule/worth", Preferences(1, 1, 0), "small"),
        ("rule/worth", Preferences(1, 0, 0), "large"),
        ("rule/worth", None, "large"),
        ("rule/cheapest", None, "small"),
        ("rule/always/ask/unpriced", None, "unpriced"),
    ],
)
def test_a_rule_asks_the_model_that_it_puts_first(
    rule: str, weights: Preferences | None, first: str
) -> None:
    assert asked(situation(rule, preferences=weights)) == first


@pytest.mark.parametrize(
    ("weights", "probabilities", "first"),
    [
        # Nothing is known: the order is that of worth.
        (Preferences(1, 0, 0), {}, "large"),
        (Preferences(1, 0, 0), {"large": 0.3}, "small"),
        (Preferences(1, 0, 0), {"large": 0.7, "small": 0.9}, "small"),
        # The small one is worth more when it is right, and it rarely is.
        (Preferences(1, 1, 0), {"large": 0.9, "small": 0.3}, "large"),
        (Preferences(1, 1, 0), {"large": 0.9, "small": 0.6}, "small"),
    ],
)
def test_competence_is_weighed_against_the_worth_of_a_right_answer(
    weights: Preferences, probabilities: dict[str, float], first: str
) -> None:
    ways = tuple(
        replace(each, competence=Competence(0, 0, probabilities[each.model_alias]))
        if each.model_alias in probabilities
        else each
        for each in EXPERTS.estimates
        if each.model_alias != "unpriced"
    )
    tools = (CALCULATOR, replace(EXPERTS, estimates=ways))
    assert asked(situation("rule/competence", preferences=weights, tools=tools)) == first


def test_chance_is_the_same_in_every_turn_of_an_episode_and_another_in_another_episode() -> None:
    firsts = {
        key: asked(situation("rule/random", key=f"{key}/1/model/0")) for key in map(str, range(40))
    }
    assert set(firsts.values()) == {"large", "small", "unpriced"}
    assert all(
        asked(situation("rule/random", key=f"{key}/2/model/0")) == first
        for key, first in firsts.items()
    )


def test_the_result_of_the_call_is_the_answer_and_costs_no_tokens() -> None:
    decision = decided_by_rule(situation("rule/cheapest", observed("small", "42")))
    assert decision.action.final_answer == "42"
    assert decision.sku == RULE_SKU and decision.completion.usage.quantities == ()


def test_a_model_that_fails_is_followed_by_the_next_until_none_is_left() -> None:
    failed = [observed(alias, failure="it is down") for alias in ("small", "large", "unpriced")]
    assert asked(situation("rule/cheapest", *failed[:1])) == "large"
    assert asked(situation("rule/cheapest", *failed[:2])) == "unpriced"
    assert decided_by_rule(situation("rule/cheapest", *failed)).action.final_answer == "it is down"


def test_the_last_turn_answers_with_what_there_is() -> None:
    found = decided_by_rule(situation("rule/cheapest", rules=TurnRules(must_answer=True)))
    assert found.action.final_answer == "No tool on offer has a model to ask."


def test_an_answer_with_a_schema_is_the_json_of_the_result() -> None:
    rules = TurnRules(answer_schema='{"type": "object", "properties": {"n": {"type": "integer"}}}')
    found = decided_by_rule(situation("rule/cheapest", observed("small", '{"n": 42}'), rules=rules))
    assert json.loads(found.action.final_answer or "") == {"n": 42}


@pytest.mark.parametrize("name", ["rule/best", "rule/always/", "rule/", "rule/worth/more"])
def test_a_rule_that_is_none_is_an_error_that_names_the_rules(name: str) -> None:
    with pytest.raises(ModelNotFound, match="rule/worth, rule/cheapest, rule/random"):
        decided_by_rule(Situation("episode/1/model/0", TASK, name))


def test_a_rule_needs_a_task_like_a_model() -> None:
    with pytest.raises(EmptyTask):
        decided_by_rule(Situation("episode/1/model/0", " ", "rule/worth"))
