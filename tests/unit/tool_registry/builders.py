"""Tools and policies for tests."""

import json
from dataclasses import replace

from tool_registry.models import (
    ModelChoice,
    PolicySpec,
    Preferences,
    Selector,
    ToolKind,
    ToolSpec,
    UnknownPriceRule,
)

EMPTY = Selector()


def make_tool(name: str = "calculator", **changes: object) -> ToolSpec:
    """A function tool."""
    spec = ToolSpec(
        name=name,
        kind=ToolKind.FUNCTION,
        connection_kind="function",
        description="computes",
        parameters_schema=json.dumps({"type": "object", "properties": {}}),
        result_schema="",
        models=(),
        max_output_tokens=0,
        sku=f"tool/{name}",
        timeout_s=30.0,
        tags=frozenset(),
        provider="",
        wire=b"",
    )
    return replace(spec, **changes)  # type: ignore[arg-type]


def make_model(alias: str, **changes: object) -> ModelChoice:
    """A model of an llm tool."""
    choice = ModelChoice(alias, f"lab/{alias}", f"model/{alias}", "good at it", "lab", frozenset())
    return replace(choice, **changes)  # type: ignore[arg-type]


def make_policy(**changes: object) -> PolicySpec:
    """A policy that allows everything."""
    policy = PolicySpec(
        name="p",
        preferences=Preferences(),
        allow=EMPTY,
        deny=EMPTY,
        required_tags=frozenset(),
        price_ceiling=None,
        latency_ceiling_s=None,
        unknown_price=UnknownPriceRule.ADMIT,
        approval=EMPTY,
        instruction="",
        training_consent=False,
        wire=b"",
    )
    return replace(policy, **changes)  # type: ignore[arg-type]
