import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessageCustomToolCall
from openai.types.responses import CustomToolParam, Response, ResponseCustomToolCall

from integration.gateway.gateway_under_test import Gateway
from integration.gateway.protocols.test_client_tools import tells
from integration.gateway.scripted_episodes import make_client_calls, make_decision
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator

PATCH = '*** Begin Patch\n"ü"\n*** End Patch'
CALL = orchestrator.ToolCall(tool_name="apply_patch", arguments_json=json.dumps({"input": PATCH}))
GRAMMAR: Any = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
APPLY_PATCH: CustomToolParam = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files.",
    "format": GRAMMAR,
}


def patches(request: pb.StartEpisodeRequest) -> list[episode_pb2.EpisodeEvent]:
    calls = orchestrator.ToolCalls(calls=[CALL])
    return [make_decision(1, tool_calls=calls), make_client_calls(1, CALL)]


@pytest.fixture
def codex(gateway: Gateway) -> Gateway:
    gateway.episodes.script, gateway.episodes.sequel = patches, tells
    return gateway


def calls_of(response: Response) -> list[ResponseCustomToolCall]:
    return [item for item in response.output if item.type == "custom_tool_call"]


@pytest.mark.parametrize("choice", ["required", {"type": "custom", "name": "apply_patch"}])
async def test_a_custom_tool_is_called_with_a_text_and_answered(
    codex: Gateway, choice: Any
) -> None:
    """Public report 49."""
    async with codex.openai() as client:
        first = await client.responses.create(
            model="podium", input="Fix the typo.", tools=[APPLY_PATCH], tool_choice=choice
        )
        [call] = calls_of(first)
        output: Any = {
            "type": "custom_tool_call_output",
            "call_id": call.call_id,
            "output": "Done",
        }
        asked: Any = call.model_dump(exclude_none=True)
        second = await client.responses.create(
            model="podium", input=[asked, output], tools=[APPLY_PATCH]
        )
        again = await client.responses.retrieve(first.id)
    assert (call.name, call.input) == ("apply_patch", PATCH)
    assert second.output_text == "It is Done."
    assert again.output == first.output
    [running] = codex.episodes.episodes.values()
    spec = running.request.spec
    [offered] = spec.client_tools
    assert (offered.name, offered.description) == ("apply_patch", "Edits files.")
    schema = json.loads(offered.parameters_json_schema)
    assert (schema["properties"], schema["required"]) == (
        {"input": {"type": "string"}},
        ["input"],
    )
    assert list(spec.first_tool_names) == ["apply_patch"]


async def test_a_stream_builds_a_custom_call_up(codex: Gateway) -> None:
    async with (
        codex.openai() as client,
        client.responses.stream(model="podium", input="Fix it.", tools=[APPLY_PATCH]) as stream,
    ):
        events = [event async for event in stream]
        whole = await stream.get_final_response()
    kinds = [event.type for event in events]
    assert kinds[2:] == [
        "response.output_item.added",
        "response.custom_tool_call_input.delta",
        "response.custom_tool_call_input.done",
        "response.output_item.done",
        "response.completed",
    ]
    [call] = calls_of(whole)
    assert call.input == PATCH
    said = [event for event in events if event.type == "response.custom_tool_call_input.delta"]
    assert (said[0].delta, said[0].item_id) == (PATCH, call.id)


@pytest.mark.parametrize(
    ("given", "ignored"),
    [(GRAMMAR, "tools[0].format:grammar"), ({"type": "text"}, None), (None, None)],
)
async def test_a_grammar_is_named_and_not_enforced(
    codex: Gateway, given: Any, ignored: str | None
) -> None:
    tool = {"type": "custom", "name": "apply_patch", "format": given}
    body = {"model": "podium", "input": "Fix it.", "tools": [tool]}
    reply = await codex.post("/v1/responses", json=body)
    assert reply.status_code == 200
    assert reply.headers.get("x-podium-ignored") == ignored
    assert reply.json()["tools"] == [tool]


CHAT_PATCH: Any = {"type": "custom", "custom": {"name": "apply_patch", "format": GRAMMAR}}


@pytest.mark.parametrize(
    "choice", ["required", {"type": "custom", "custom": {"name": "apply_patch"}}]
)
async def test_a_chat_calls_a_custom_tool_with_a_text(codex: Gateway, choice: Any) -> None:
    messages: list[Any] = [{"role": "user", "content": "Fix the typo."}]
    async with codex.openai() as client:
        first = await client.chat.completions.create(
            model="podium", messages=messages, tools=[CHAT_PATCH], tool_choice=choice
        )
        message = first.choices[0].message
        [call] = message.tool_calls or []
        done = {"role": "tool", "tool_call_id": call.id, "content": "Done"}
        said = [*messages, message.model_dump(exclude_none=True), done]
        second = await client.chat.completions.create(
            model="podium", messages=said, tools=[CHAT_PATCH]
        )
    assert isinstance(call, ChatCompletionMessageCustomToolCall)
    assert (call.custom.name, call.custom.input) == ("apply_patch", PATCH)
    assert first.choices[0].finish_reason == "tool_calls"
    assert second.choices[0].message.content == "It is Done."


async def test_a_stream_of_a_chat_builds_a_custom_call_up(codex: Gateway) -> None:
    async with codex.openai() as client:
        stream = await client.chat.completions.create(
            model="podium",
            messages=[{"role": "user", "content": "Fix the typo."}],
            tools=[CHAT_PATCH],
            stream=True,
        )
        deltas = [chunk.model_dump()["choices"][0]["delta"] async for chunk in stream]
    parts = [part for delta in deltas for part in delta.get("tool_calls") or ()]
    assert [part["type"] for part in parts if part.get("type")] == ["custom"]
    assert "".join(part["custom"]["input"] for part in parts) == PATCH
