from typing import Any

import openai
import pytest

from integration.gateway.gateway_under_test import Gateway
from integration.gateway.scripted_episodes import (
    make_decision,
    make_failure,
    make_finish,
    make_tool_return,
)
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator
from podium.registry.v1 import tool_pb2, toolset_pb2

ZONE = '{"timezone": "Asia/Tokyo"}'
SCHEMA = '{"type": "object", "properties": {"timezone": {"type": "string"}}}'
URL = "https://board.example.com/mcp"
TIME: Any = {"type": "mcp", "server_label": "time", "require_approval": "never"}
BOARD: Any = {"type": "mcp", "server_label": "our board", "server_url": f"{URL}/"}


def tool(name: str, own_name: str, server: str = "", url: str = "") -> tool_pb2.Tool:
    mcp = tool_pb2.McpConnection(tool_name=own_name)
    if server:
        mcp.stdio.server = server
    else:
        mcp.http.url = url
    reads = own_name.startswith("get")
    effect = tool_pb2.SIDE_EFFECT_PURE if reads else tool_pb2.SIDE_EFFECT_EFFECTFUL
    spec = tool_pb2.ToolSpec(
        name=name,
        kind=tool_pb2.TOOL_KIND_MCP,
        description=f"does {own_name}",
        parameters_json_schema=SCHEMA,
        side_effect=effect,
        connection=tool_pb2.Connection(mcp=mcp),
    )
    return tool_pb2.Tool(spec=spec, version=1)


def called(request: pb.StartEpisodeRequest) -> list[episode_pb2.EpisodeEvent]:
    calls = [
        orchestrator.ToolCall(index=0, tool_name="time_get_time", arguments_json=ZONE),
        orchestrator.ToolCall(index=1, tool_name="time_convert", arguments_json="{}"),
    ]
    first, second = make_tool_return(1, content="12:00"), make_tool_return(1)
    first.tool_returned.observation.call.CopyFrom(calls[0])
    second.tool_returned.observation.call.CopyFrom(calls[1])
    failure = make_failure("TOOL_ERROR", "there is no such zone")
    second.tool_returned.observation.failure.CopyFrom(failure)
    return [
        make_decision(1, tool_calls=orchestrator.ToolCalls(calls=calls)),
        first,
        second,
        # Of a tool that the request did not name.
        make_tool_return(1, content="42"),
        make_finish(answer="It is noon."),
    ]


@pytest.fixture
def servers(gateway: Gateway) -> Gateway:
    registered = [
        tool("time_get_time", "get_time", "time"),
        tool("time_convert", "convert", "time"),
        tool("time_denied", "denied", "time"),
        tool("board_get_card", "get_card", url=URL),
    ]
    gateway.tools.tools = {each.spec.name: each for each in registered}
    gateway.tools.more = [
        toolset_pb2.ResolvedTool(name=each.spec.name, kind=tool_pb2.TOOL_KIND_MCP)
        for each in registered
        if each.spec.name != "time_denied"
    ]
    gateway.episodes.script = called
    gateway.episodes.tool_names = set(gateway.tools.tools)
    return gateway


def tool_names(gateway: Gateway) -> list[str]:
    *_, running = gateway.episodes.episodes.values()
    return list(running.request.spec.tool_names)


async def test_a_server_is_named_by_its_label_and_its_calls_are_items(servers: Gateway) -> None:
    async with servers.openai() as client:
        reply = await client.responses.create(model="podium", input="What time?", tools=[TIME])
        found = await client.responses.retrieve(reply.id)
    listed, noon, failed, said = reply.output
    assert listed.type == "mcp_list_tools"
    assert listed.server_label == "time"
    assert [each.name for each in listed.tools] == ["get_time", "convert"]
    assert listed.tools[0].input_schema == {
        "type": "object",
        "properties": {"timezone": {"type": "string"}},
    }
    assert noon.type == failed.type == "mcp_call"
    assert (noon.server_label, noon.name, noon.arguments) == ("time", "get_time", ZONE)
    assert (noon.output, noon.error, noon.status) == ("12:00", None, "completed")
    assert (failed.output, failed.status) == (None, "failed")
    assert failed.error is not None
    assert failed.error.model_dump() == {
        "type": "mcp_tool_execution_error",
        "content": [{"type": "text", "text": "there is no such zone"}],
    }
    assert said.type == "message"
    assert reply.output_text == "It is noon."
    assert tool_names(servers) == ["time_get_time", "time_convert"]
    # A response asked for later has the same, though nothing is kept but its episode.
    assert found.output == reply.output


async def test_allowed_tools_and_a_choice_keep_to_some(servers: Gateway) -> None:
    one: Any = {**TIME, "allowed_tools": ["convert"]}
    reading: Any = {**TIME, "allowed_tools": {"read_only": True}}
    choice: Any = {"type": "mcp", "server_label": "our board"}
    async with servers.openai() as client:
        await client.responses.create(model="podium", input="a", tools=[one])
        assert tool_names(servers) == ["time_convert"]
        await client.responses.create(model="podium", input="a", tools=[reading])
        assert tool_names(servers) == ["time_get_time"]
        await client.responses.create(
            model="podium", input="a", tools=[TIME, BOARD], tool_choice=choice
        )
    assert tool_names(servers) == ["time_get_time", "time_convert", "board_get_card"]
    *_, running = servers.episodes.episodes.values()
    assert list(running.request.spec.first_tool_names) == ["board_get_card"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"server_label": "x", "server_url": "https://x.example.com/mcp"}, "import-mcp"),
        ({"server_label": "clock"}, "no MCP server 'clock' is registered"),
        ({"allowed_tools": ["sleep"]}, "time has no tool sleep, but convert, denied, get_time"),
        ({"allowed_tools": ["denied"]}, "the policy allows none of the tools of 'time'"),
        ({"require_approval": "always"}, "the policy's here"),
        ({"headers": {"x": "y"}}, "podium secrets"),
        ({"server_label": "x" * 300, "server_url": URL}, "have over 256 characters"),
    ],
    ids=["url", "label", "tool", "denied", "approval", "headers", "length"],
)
async def test_what_cannot_be_honoured_names_the_fix(
    servers: Gateway, asked: dict[str, Any], said: str
) -> None:
    tools: Any = [{**TIME, **asked}]
    async with servers.openai() as client:
        with pytest.raises(openai.BadRequestError, match="tools") as rejected:
            await client.responses.create(model="podium", input="a", tools=tools)
    assert said in str(rejected.value)
    # Only those who own a tool know where its server is.
    assert URL not in str(rejected.value)
    assert not servers.episodes.episodes


async def test_a_stream_has_the_events_of_openais_clients(servers: Gateway) -> None:
    async with (
        servers.openai() as client,
        client.responses.stream(model="podium", input="What time?", tools=[TIME]) as stream,
    ):
        kinds = [event.type async for event in stream]
        whole = await stream.get_final_response()
    added = "response.output_item.added"
    places = [index for index, kind in enumerate(kinds) if kind == added]
    assert kinds[places[0] : places[1]] == [
        added,
        "response.mcp_list_tools.in_progress",
        "response.mcp_list_tools.completed",
        "response.output_item.done",
    ]
    assert kinds[places[1] : places[2]] == [
        added,
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done",
        "response.mcp_call.completed",
        "response.output_item.done",
    ]
    assert "response.mcp_call.failed" in kinds[places[2] : places[3]]
    assert [item.type for item in whole.output] == [
        "mcp_list_tools",
        "mcp_call",
        "mcp_call",
        "message",
    ]


async def test_its_items_may_be_sent_back(servers: Gateway) -> None:
    async with servers.openai() as client:
        reply = await client.responses.create(model="podium", input="What time?", tools=[TIME])
        said: Any = [item.model_dump() for item in reply.output]
        question: Any = {"role": "user", "content": "And in Oslo?"}
        await client.responses.create(
            model="podium",
            input=[{"role": "user", "content": "What time?"}, *said, question],
            tools=[TIME],
        )
    *_, running = servers.episodes.episodes.values()
    spec = running.request.spec
    assert spec.task == "And in Oslo?"
    texts = [each.content for each in spec.history]
    assert f"get_time({ZONE})" in texts
    assert "get_time returned 12:00" in texts
    assert "convert returned an error: there is no such zone" in texts
