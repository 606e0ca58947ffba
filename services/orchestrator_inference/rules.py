"""Rules that decide in place of a model: what an orchestrator has to do better than.

A rule orders the models that tools offer, asks the first, and answers with its result; where a call
fails, it asks the next. It writes no arguments but the task itself, so it calls no other tools.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from random import Random
from typing import Any

from orchestrator_inference.action.parser import parse_action
from orchestrator_inference.action.schema import parameters_of
from orchestrator_inference.errors import EmptyTask, ModelNotFound
from orchestrator_inference.models import (
    CallEstimate,
    Completion,
    Decision,
    Observation,
    Preferences,
    PromptTool,
    Situation,
)
from orchestrator_inference.prompt.worth import Way, rated_ways
from podium_kit.metering import Usage, UsageSource
from podium_kit.models.rules import (
    ALWAYS,
    CHEAPEST,
    COMPETENCE,
    RANDOM,
    RULE_SKU,
    RULES,
    WORTH,
    is_rule,
)

NO_MODEL = "No tool on offer has a model to ask."
INDIFFERENT = Preferences(1, 0, 0)
# Of a model that no verified episode asked: as likely right as wrong.
UNKNOWN_PROBABILITY = 0.5


def decided_by_rule(situation: Situation) -> Decision:
    """Raises ModelNotFound, EmptyTask."""
    if not is_rule(situation.model):
        raise ModelNotFound(situation.model, RULES)
    if not situation.task.strip():
        raise EmptyTask
    completion = Completion(
        text=json.dumps(_action(situation), ensure_ascii=False),
        finish_reason="stop",
        usage=Usage.of(UsageSource.MEASURED),
        model_version=situation.model,
        engine="rule",
        latency_s=0.0,
    )
    names = [tool.name for tool in situation.tools]
    action = parse_action(completion, names, 1, situation.rules)
    return Decision(action, completion, situation.sampling, None, RULE_SKU, "")


def _action(situation: Situation) -> Mapping[str, Any]:
    seen = [each for turn in situation.turns for each in turn.observations]
    if seen and seen[-1].failure is None:
        return _answer(situation, seen[-1].content)
    tools = {each.name: each for each in situation.tools if situation.rules.may_call(each.name)}
    asked = [_asked(each) for each in seen]
    for name, alias in _order(situation):
        if name not in tools:
            continue
        call = {"tool": name, "arguments": _arguments(tools[name], alias, situation.task)}
        if call not in asked:
            return call
    failure = seen[-1].failure if seen else None
    return _answer(situation, failure.message if failure else NO_MODEL)


def _answer(situation: Situation, text: str) -> Mapping[str, Any]:
    """The text, or the JSON in it where the answer has a schema."""
    if situation.rules.answer_schema:
        try:
            return {"answer": json.loads(text)}
        except ValueError:
            pass
    return {"answer": text}


def _asked(observation: Observation) -> Mapping[str, Any]:
    call = observation.call
    return {"tool": call.tool_name, "arguments": json.loads(call.arguments_json or "{}")}


def _order(situation: Situation) -> Sequence[tuple[str, str]]:
    """Tools and models, the one to ask first in front."""
    if situation.model.startswith(ALWAYS):
        tool, _, alias = situation.model.removeprefix(ALWAYS).partition("/")
        return [(tool, alias)]
    return [(name, way.model_alias) for name, way in ORDERS[situation.model](situation)]


def _by_worth(situation: Situation) -> list[Way]:
    """Orders the ways as the prompt's line of worth does; of equals the tools' order decides."""
    return _by_value(situation, lambda worth, estimate: worth)


def _by_competence(situation: Situation) -> list[Way]:
    """Orders the ways by expected worth: that of a right answer times its probability."""

    def value(worth: int, estimate: CallEstimate) -> float:
        known = estimate.competence
        return worth * (UNKNOWN_PROBABILITY if known is None else known.probability)

    return _by_value(situation, value)


def _by_value(situation: Situation, value: Callable[[int, CallEstimate], float]) -> list[Way]:
    rated = rated_ways(situation.tools, situation.preferences or INDIFFERENT)
    ordered = sorted(rated, key=lambda each: -value(each[1], each[0][1]))
    return [way for way, _ in ordered if way[1].model_alias]


def _by_cost(situation: Situation) -> list[Way]:
    """Models of unknown cost come last."""

    def cost(way: Way) -> tuple[bool, Decimal]:
        known = way[1].cost
        return known is None, Decimal(0) if known is None else known.amount

    return sorted(_models(situation), key=cost)


def _by_chance(situation: Situation) -> list[Way]:
    """Orders the ways once for the whole episode, by its id and the seed of its sampling."""
    ways = _models(situation)
    seed = f"{situation.key.partition('/')[0]}/{situation.sampling.seed}"
    Random(seed).shuffle(ways)  # noqa: S311 chance, not a secret
    return ways


def _models(situation: Situation) -> list[Way]:
    tools = situation.tools
    return [(tool.name, each) for tool in tools for each in tool.estimates if each.model_alias]


ORDERS: Mapping[str, Callable[[Situation], list[Way]]] = {
    WORTH: _by_worth,
    COMPETENCE: _by_competence,
    CHEAPEST: _by_cost,
    RANDOM: _by_chance,
}


def _arguments(tool: PromptTool, alias: str, task: str) -> Mapping[str, Any]:
    """The model, and the task wherever the tool needs a text."""
    schema = parameters_of(tool)
    properties = schema.get("properties", {})
    arguments: dict[str, Any] = {"model": alias} if alias else {}
    for name in schema.get("required", ()):
        part = properties.get(name)
        if name not in arguments and isinstance(part, dict) and part.get("type") == "string":
            arguments[name] = part["enum"][0] if part.get("enum") else task
    return arguments
