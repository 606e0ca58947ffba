"""Prompt mode template: tools go along as definitions, and the reply is as the model wrote it."""

import json
from typing import Any

from integration.orchestrator_inference.test_next_action import CALCULATOR, make_request
from openai_server import OpenAiServer
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.registry.v1 import policy_pb2

CALL = {"name": "calculator", "arguments": {"expression": "6*7"}}
REPLY = f"<think>I compute.</think><tool_call>{json.dumps(CALL)}</tool_call>"
TEMPLATE = pb.PROMPT_MODE_TEMPLATE


def make_template_request(**changes: Any) -> pb.NextActionRequest:
    tool = pb.ToolDefinition()
    tool.CopyFrom(CALCULATOR)
    tool.terms = "$0.01, 1 s"
    preferences = policy_pb2.PreferenceVector(outcome=1, compute=0.5, latency=0)
    fields = {"prompt_mode": TEMPLATE, "tools": [tool], "preferences": preferences, **changes}
    return make_request(**fields)


async def test_the_request_and_the_reply_of_a_turn(start_service: Any) -> None:
    with OpenAiServer([REPLY, "42"], vllm_version="0.32.0") as engine:
        stub = await start_service(engine.base_url, template_arguments={"enable_thinking": True})
        called = await stub.NextAction(make_template_request())
        past = pb.PastTurn(completion_text=REPLY, action=called.action)
        past.observations.add(call=called.action.tool_calls.calls[0], content="42")
        answered = await stub.NextAction(make_template_request(turns=[past], must_answer=True))
    first, last = engine.requests
    assert first["messages"] == [
        {"role": "system", "content": "You are good at using tools."},
        {
            "role": "user",
            "content": "Problem: What is 6*7?\n\n"
            "Weights: outcome 1, cost 0.5, latency 0.\n"
            "Choose the next tool to call, or give the final answer if it is known.",
        },
    ]
    assert first["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "calculator",
                "description": "[$0.01, 1 s] Evaluates arithmetic.",
                "parameters": json.loads(CALCULATOR.parameters_json_schema),
            },
        }
    ]
    assert first["tool_choice"] == "none"
    assert first["chat_template_kwargs"] == {"enable_thinking": True}
    assert "response_format" not in first
    [call] = called.action.tool_calls.calls
    assert (call.tool_name, called.action.thought) == ("calculator", "I compute.")
    # What training needs is there, and no grammar is.
    assert called.completion_token_ids and called.completion_logprobs
    assert not called.constraint_digest
    assert "tools" not in last and answered.action.final_answer == "42"
    assert 'calculator {"expression":"6*7"} -> 42' in last["messages"][1]["content"]
    assert last["messages"][1]["content"].endswith("give the final answer now.")


async def test_an_engine_that_is_not_vllm_calls_by_itself(start_service: Any) -> None:
    with OpenAiServer(["42"]) as engine:
        stub = await start_service(engine.base_url)
        response = await stub.NextAction(make_template_request())
    assert engine.requests[0]["tool_choice"] == "auto"
    assert "chat_template_kwargs" not in engine.requests[0]
    assert response.action.final_answer == "42"
