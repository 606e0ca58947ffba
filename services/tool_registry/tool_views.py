"""A tool as the orchestrator sees it: price, latency and model choices worked in."""

import json
from collections.abc import Mapping

from tool_registry.models import Facts, ModelChoice, Price, ToolSpec
from tool_registry.prices import describe_latency, describe_price

FactsByModel = Mapping[tuple[str, str], Facts]


def describe_tool(
    spec: ToolSpec,
    models: tuple[ModelChoice, ...],
    prices: Mapping[str, Price],
    facts: FactsByModel,
) -> str:
    """The owner's description, then what a call costs and how long it takes."""
    if not models:
        price = describe_price(prices.get(spec.sku))
        return f"{spec.description} ({price}; {describe_latency(facts.get((spec.name, '')))})"
    lines = [_describe_model(spec, choice, prices, facts) for choice in models]
    return "\n".join([spec.description, *lines])


def parameters_with_models(spec: ToolSpec, models: tuple[ModelChoice, ...]) -> str:
    """The arguments' schema; a choice of models is an enum in it, never prose."""
    if len(models) < 2:
        return spec.parameters_schema
    schema = json.loads(spec.parameters_schema)
    choice = {"type": "string", "enum": [model.alias for model in models]}
    schema["properties"] = {"model": choice, **schema.get("properties", {})}
    schema["required"] = sorted({"model", *schema.get("required", [])})
    return json.dumps(schema)


def _describe_model(
    spec: ToolSpec, choice: ModelChoice, prices: Mapping[str, Price], facts: FactsByModel
) -> str:
    price = describe_price(prices.get(choice.sku))
    latency = describe_latency(facts.get((spec.name, choice.alias)))
    return f"- {choice.alias}: {choice.description} ({price}; {latency})"
