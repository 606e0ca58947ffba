import json
from typing import Any

from orchestrator_inference.models import (
    Action,
    ActionToolCall,
    Completion,
    NativeCall,
    Observation,
    PastTurn,
    PromptTool,
    ResultSection,
)
from podium_kit.metering import Usage, UsageSource


def make_tool(
    name: str = "calculator",
    properties: dict[str, Any] | None = None,
    *,
    description: str = "Evaluates arithmetic.",
    section: ResultSection = ResultSection.ATTEMPT,
    defs: dict[str, Any] | None = None,
    **schema: Any,
) -> PromptTool:
    properties = {"expression": {"type": "string"}} if properties is None else properties
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "$defs": defs or {},
        **schema,
    }
    return PromptTool(name, description, json.dumps(parameters), section)


def make_completion(
    text: str,
    *,
    constrained: bool = True,
    finish_reason: str = "stop",
    native_calls: tuple[NativeCall, ...] = (),
) -> Completion:
    return Completion(
        text=text,
        finish_reason=finish_reason,
        usage=Usage((), UsageSource.PROVIDER),
        model_version="m",
        engine="vllm/0.32.0",
        latency_s=0.1,
        native_calls=native_calls,
        constrained=constrained,
    )


def make_turn(
    tool: str = "calculator", content: str = "42", completion_text: str = "{}", **changes: Any
) -> PastTurn:
    call = ActionToolCall(0, tool, '{"expression":"6*7"}')
    observation = Observation(call, content, changes.get("failure"))
    return PastTurn(completion_text, Action(calls=(call,)), (observation,))
