"""The function adapter gives answers as JSON and failures as values."""

import json

from podium_kit.failures import FailureKind, ToolFailure
from tool_adapters.adapter import Output, ToolCall
from tool_adapters.functions.adapter import FunctionAdapter
from tool_adapters.models import (
    FunctionConnection,
    JsonObject,
    SideEffect,
    ToolDefinition,
    ToolKind,
)


def make_tool(function: str) -> ToolDefinition:
    return ToolDefinition(
        name=function,
        version=1,
        kind=ToolKind.FUNCTION,
        parameters_schema={"type": "object"},
        result_schema=None,
        connection=FunctionConnection(function),
        side_effect=SideEffect.PURE,
    )


async def invoke(function: str, arguments: JsonObject) -> Output | ToolFailure:
    call = ToolCall("e1/0/tool/0", "e1", function, 1, arguments, "", "", 0, "acme")
    adapter = FunctionAdapter()
    try:
        return (await adapter.invoke(call, make_tool(function))).outcome
    finally:
        await adapter.close()


async def test_answer_is_json() -> None:
    outcome = await invoke("country_facts", {"country": "Iceland"})
    assert isinstance(outcome, Output)
    assert json.loads(outcome.content_json)["capital"] == "Reykjavik"


async def test_failure_is_a_value() -> None:
    outcome = await invoke("calculator", {"expression": "1 / 0"})
    assert outcome == ToolFailure(FailureKind.TOOL_ERROR, "'1 / 0' divides by zero")


async def test_unknown_function_is_named() -> None:
    outcome = await invoke("teleport", {})
    assert isinstance(outcome, ToolFailure)
    assert outcome.kind is FailureKind.NOT_FOUND
    assert "calculator" in outcome.message
