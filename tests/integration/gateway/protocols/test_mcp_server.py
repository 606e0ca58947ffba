import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client

from integration.gateway.gateway_under_test import Gateway
from integration.gateway.scripted_episodes import make_failure, make_finish
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.registry.v1 import tool_pb2, toolset_pb2


@asynccontextmanager
async def client_of(gateway: Gateway, key: str = "", **options: Any) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key or gateway.key}"}
    async with httpx2.AsyncClient(headers=headers, trust_env=False) as http:
        transport = streamable_http_client(f"{gateway.base_url}/v1/mcp", http_client=http)
        async with Client(transport, **options) as client:
            yield client


async def call(client: Client, **arguments: Any) -> types.CallToolResult:
    return await client.call_tool("run_task", arguments)


def text_of(result: types.CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, types.TextContent)
    return content.text


async def test_a_task_is_run_with_progress_and_told_what_it_cost(gateway: Gateway) -> None:
    told: list[str] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append(f"{progress:g} {message}")

    async with client_of(gateway) as client:
        tool = (await client.list_tools()).tools[0]
        result = await client.call_tool(
            "run_task",
            {"task": "6*7?", "policy": "cost-first", "budget_usd": "0.5"},
            progress_callback=tell,
        )
    assert tool.name == "run_task" and "budget_usd" in tool.input_schema["properties"]
    assert text_of(result) == "The answer to '6*7?' is 42." and not result.is_error
    [(episode_id, running)] = gateway.episodes.episodes.items()
    found = result.structured_content or {}
    assert (found["episode_id"], found["cost"]["amount"]) == (episode_id, "0.00023")
    assert told[1].startswith("2 Turn 1: I need to multiply. calculator(")
    spec = running.request.spec
    assert (spec.policy, spec.budget.amount) == ("cost-first", "0.5")


async def test_an_answer_is_shown_while_it_is_written(gateway: Gateway) -> None:
    texts = ["The answer to '6*7?'", " is 42."]
    gateway.episodes.answer_parts = [
        pb.EpisodeAnswerPart(turn=2, start=0, text=texts[0]),
        pb.EpisodeAnswerPart(turn=2, start=len(texts[0]), text=texts[1]),
    ]
    seen = list[types.ProgressNotificationParams]()

    async def see(message: Any) -> None:
        if isinstance(message, types.ProgressNotification):
            seen.append(message.params)

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        pass

    meta: Any = {"podium": {"stream_answer": True}}
    async with client_of(gateway, message_handler=see) as client:
        task = {"task": "6*7?"}
        await client.call_tool("run_task", task, progress_callback=progress, meta=meta)
        shown, seen[:] = list(seen), []
        await client.call_tool("run_task", task, progress_callback=progress)
    first, last = (each for each in shown if each.meta)
    assert [first.meta, last.meta] == [{"podium": {"answer_part": text}} for text in texts]
    assert last.message == f"Answer: {''.join(texts)}"
    assert [each.progress for each in shown] == list(range(1, len(shown) + 1))
    streams = [each.request.spec.stream_answer for each in gateway.episodes.episodes.values()]
    assert streams == [True, False] and not any(each.meta for each in seen)


async def test_what_went_wrong_is_for_the_model_that_called(gateway: Gateway) -> None:
    failure = make_failure("UNAVAILABLE", "no model answers")
    gateway.episodes.script = lambda request: [make_finish("FAILED", failure=failure)]
    async with client_of(gateway) as client:
        failed = await call(client, task="6*7?")
        empty = await call(client, task="")
        unknown = await call(client, task="6*7?", colour="red")
        nobody = await call(client, task="6*7?", model="gpt-9")
        meta: Any = {"podium": {"policy": "x"}}
        odd = await client.call_tool("run_task", {"task": "6*7?"}, meta=meta)
    assert failed.is_error and "no model answers" in text_of(failed)
    assert empty.is_error and text_of(empty).startswith("task: ")
    assert unknown.is_error and text_of(unknown).startswith("colour: ")
    assert nobody.is_error and "gpt-9" in text_of(nobody)
    assert odd.is_error and text_of(odd).startswith("_meta.podium.policy: ")


async def test_a_task_is_run_once_for_its_idempotency_key(gateway: Gateway) -> None:
    meta: Any = {"podium": {"idempotency_key": "once"}}
    async with client_of(gateway) as client:
        first, again = [
            await client.call_tool("run_task", {"task": "6*7?"}, meta=meta) for _ in range(2)
        ]
        other = await client.call_tool("run_task", {"task": "7*7?"}, meta=meta)
    assert first.structured_content == again.structured_content
    assert other.is_error and "another spec" in text_of(other)
    assert len(gateway.episodes.episodes) == 1


async def test_tools_of_the_policy_are_listed_in_pages(gateway: Gateway) -> None:
    names = [f"t{number:03}" for number in range(150)]
    kind, podium = tool_pb2.TOOL_KIND_FUNCTION, tool_pb2.TOOL_KIND_PODIUM
    gateway.tools.more = [
        *(toolset_pb2.ResolvedTool(name=name, kind=kind) for name in names),
        toolset_pb2.ResolvedTool(name="run_task", kind=kind),
        toolset_pb2.ResolvedTool(name="team", kind=podium),
    ]
    async with client_of(gateway) as client:
        first = await client.list_tools()
        second = await client.list_tools(cursor=first.next_cursor)
        with pytest.raises(Exception, match="the cursor is none of this server's"):
            await client.list_tools(cursor="\x00")
    # Calls of `asked` wait for a person, `team` runs episodes.
    shown = [tool.name for tool in (*first.tools, *second.tools)]
    assert shown == ["run_task", "calculator", "expert", *names]
    assert (len(first.tools), second.next_cursor) == (101, None)
    expert = first.tools[2]
    assert expert.input_schema["properties"]["model"]["enum"] == ["small", "large"]
    assert expert.annotations and expert.annotations.read_only_hint is False


async def test_a_key_is_needed_and_its_tenant_is_the_episodes(gateway: Gateway) -> None:
    rejected = await gateway.post("/v1/mcp", json={}, key="pod_wrong_key")
    assert rejected.status_code == 401
    async with client_of(gateway, await gateway.new_key("umbrella")) as client:
        await call(client, task="6*7?")
    [running] = gateway.episodes.episodes.values()
    assert running.tenant == "umbrella"


async def test_what_is_no_message_is_a_client_error(gateway: Gateway) -> None:
    headers = {"accept": "application/json, text/event-stream"}
    bodies: list[object] = [{}, [], {"jsonrpc": "2.0", "id": 1, "method": "fly"}, "\0"]
    for body in bodies:
        reply = await gateway.post("/v1/mcp", content=json.dumps(body), headers=headers)
        assert reply.status_code < 500, reply.text
    assert (await gateway.get("/v1/mcp")).status_code == 405
