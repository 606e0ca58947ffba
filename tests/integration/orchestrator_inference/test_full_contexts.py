import json
import logging
from typing import Any

import pytest

from integration.orchestrator_inference.test_next_action import CALCULATOR, make_request
from openai_server import OpenAiServer, prompt_tokens
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb

CONTEXT = 8192
RESULT = "FOUND " + "r" * 6_000 + " THE END"


def many_tools() -> list[pb.ToolDefinition]:
    schema = json.dumps({"type": "object", "properties": {"id": {"type": "string"}}})
    return [
        pb.ToolDefinition(
            name=f"operation_{number}",
            description=f"Does number {number}. " + "d" * 300,
            parameters_json_schema=schema,
        )
        for number in range(328)
    ]


def turn() -> pb.PastTurn:
    call = pb.ToolCall(tool_name="calculator", arguments_json='{"expression":"6*7"}')
    action = pb.Action(tool_calls=pb.ToolCalls(calls=[call]))
    observation = pb.Observation(call=call, content=RESULT)
    return pb.PastTurn(completion_text="{}", action=action, observations=[observation])


@pytest.mark.parametrize(
    "mode", [pb.PROMPT_MODE_STATELESS, pb.PROMPT_MODE_CHAT, pb.PROMPT_MODE_TEMPLATE]
)
async def test_results_are_shown_and_the_tools_that_are_not_are_told(
    start_service: Any, caplog: pytest.LogCaptureFixture, mode: Any
) -> None:
    tools = [*many_tools(), CALCULATOR]
    with OpenAiServer(context_tokens=CONTEXT) as engine:
        stub = await start_service(engine.base_url)
        request = make_request(tools=tools, turns=[turn()], prompt_mode=mode)
        with caplog.at_level(logging.WARNING, "orchestrator_inference.service"):
            response = await stub.NextAction(request)
        [asked] = engine.requests
    said = json.dumps([asked["messages"], asked.get("tools")])
    assert RESULT in said
    assert "calculator" in said
    [told] = response.left_out
    hidden = int(told.split()[0])
    assert told == f"{hidden} of 329 tools, which do not fit the model's context"
    assert f"({hidden} more tools are left out" in said
    assert 0 < hidden < 329
    assert f"is without {told}" in caplog.text
    assert "FOUND" not in caplog.text


async def test_what_fits_is_whole_and_nobody_is_told(start_service: Any) -> None:
    with OpenAiServer(context_tokens=CONTEXT) as engine:
        stub = await start_service(engine.base_url)
        response = await stub.NextAction(make_request(turns=[turn()]))
    assert not response.left_out


@pytest.mark.parametrize("mode", [pb.PROMPT_MODE_STATELESS, pb.PROMPT_MODE_CHAT])
async def test_what_does_not_fit_is_left_out_by_the_engines_own_count(
    start_service: Any, mode: Any
) -> None:
    sizes = {}
    for version in (None, "0.32.0"):
        with OpenAiServer(context_tokens=CONTEXT, vllm_version=version) as engine:
            stub = await start_service(engine.base_url)
            request = make_request(tools=many_tools(), turns=[turn()], prompt_mode=mode)
            response = await stub.NextAction(request)
            [asked] = engine.requests
        left = int(response.left_out[0].split()[0])
        sizes[version] = (prompt_tokens(asked), left)
    (estimated, hidden), (counted, fewer_hidden) = sizes.values()
    room = CONTEXT - asked["max_tokens"]
    assert fewer_hidden < hidden
    assert estimated < 0.8 * room
    assert 0.95 * room < counted <= room
