import json
from collections.abc import Iterable
from itertools import groupby
from typing import Any

import pytest
from openai import pydantic_function_tool
from openai.types.chat import ChatCompletionChunk, ChatCompletionMessageParam
from pydantic import BaseModel

from gateway.chat.call_ids import CallId
from integration.gateway.gateway_under_test import Gateway
from integration.gateway.scripted_episodes import (
    make_client_calls,
    make_decision,
    make_finish,
    make_usage,
)
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator

TASK: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Is it warm?"}]
MADE = [
    ("GetWeather", '{"city": "Oslo", "unit": "c"}'),
    ("GetStock", '{"ticker": "EQNR", "exchange": "OSE"}'),
]


class GetWeather(BaseModel):
    city: str
    unit: str


class GetStock(BaseModel):
    ticker: str
    exchange: str


TOOLS: Any = [pydantic_function_tool(GetWeather), pydantic_function_tool(GetStock)]


@pytest.fixture
def asking(gateway: Gateway) -> Gateway:
    def script(_: pb.StartEpisodeRequest) -> list[episode_pb2.EpisodeEvent]:
        calls = [
            orchestrator.ToolCall(index=index, tool_name=name, arguments_json=arguments)
            for index, (name, arguments) in enumerate(MADE)
        ]
        used = make_usage(INPUT_FRESH=60, OUTPUT_TEXT=7)
        decided = make_decision(1, used=used, tool_calls=orchestrator.ToolCalls(calls=calls))
        return [decided, make_client_calls(1, *calls)]

    gateway.episodes.script = script
    return gateway


async def chunks_of(gateway: Gateway, **parameters: Any) -> list[ChatCompletionChunk]:
    async with gateway.openai() as client:
        stream = await client.chat.completions.create(
            model="podium", messages=TASK, tools=TOOLS, stream=True, **parameters
        )
        return [each async for each in stream if not is_reasoning(each)]


def is_reasoning(chunk: ChatCompletionChunk) -> bool:
    return any("reasoning_content" in each.delta.model_fields_set for each in chunk.choices)


async def events_of(gateway: Gateway, **parameters: Any) -> list[Any]:
    async with (
        gateway.openai() as client,
        client.chat.completions.stream(
            model="podium", messages=TASK, tools=TOOLS, **parameters
        ) as stream,
    ):
        return [event async for event in stream]


def without_repetitions(kinds: Iterable[str]) -> list[str]:
    return [kind for kind, _ in groupby(kinds)]


async def test_a_call_is_its_name_first_and_then_its_arguments(asking: Gateway) -> None:
    chunks = await chunks_of(asking, stream_options={"include_usage": True})
    [(episode_id, _)] = asking.episodes.episodes.items()
    assert {(each.id, each.object, each.model) for each in chunks} == {
        (f"chatcmpl-{episode_id}", "chat.completion.chunk", "podium")
    }
    *told, last = chunks
    deltas = [each.choices[0].delta for each in told]
    assert deltas[0].role == "assistant" and not any(each.role for each in deltas[1:])
    parts = [part for delta in deltas for part in delta.tool_calls or ()]
    assert all(len(delta.tool_calls or ()) <= 1 for delta in deltas)
    assert [part.index for part in parts] == sorted(part.index for part in parts)
    for index, (name, arguments) in enumerate(MADE):
        first, *more = [part for part in parts if part.index == index]
        assert (first.id, first.type) == (str(CallId(episode_id, 1, index)), "function")
        assert first.function and (first.function.name, first.function.arguments) == (name, "")
        assert all(part.id is None and part.type is None for part in more)
        assert all(part.function and part.function.name is None for part in more)
        assert "".join(part.function.arguments or "" for part in more if part.function) == arguments
    reasons = [each.choices[0].finish_reason for each in told]
    assert reasons == [None] * (len(told) - 1) + ["tool_calls"]
    assert not deltas[-1].tool_calls and deltas[-1].content is None
    assert not last.choices and last.usage and last.usage.completion_tokens == 7
    assert all(each.usage is None for each in told)


async def test_the_accumulator_tells_every_call_once_and_whole(asking: Gateway) -> None:
    events = await events_of(asking)
    delta, done = "tool_calls.function.arguments.delta", "tool_calls.function.arguments.done"
    kinds = without_repetitions(each.type for each in events if each.type != "chunk")
    assert kinds == [delta, done, delta, done]
    finished = [each for each in events if each.type == done]
    assert [(each.index, each.name, each.arguments) for each in finished] == [
        (index, *call) for index, call in enumerate(MADE)
    ]
    parsed = [each.parsed_arguments for each in finished]
    assert parsed == [GetWeather(city="Oslo", unit="c"), GetStock(ticker="EQNR", exchange="OSE")]
    for index, (_, arguments) in enumerate(MADE):
        said = [each for each in events if each.type == delta and each.index == index]
        assert "".join(each.arguments_delta for each in said) == said[-1].arguments == arguments
        assert json.loads(arguments) == said[-1].parsed_arguments


async def test_the_accumulated_completion_is_that_of_a_request_without_a_stream(
    asking: Gateway,
) -> None:
    async with asking.openai() as client:
        async with client.chat.completions.stream(
            model="podium", messages=TASK, tools=TOOLS, stream_options={"include_usage": True}
        ) as stream:
            streamed = await stream.get_final_completion()
        whole = await client.chat.completions.parse(model="podium", messages=TASK, tools=TOOLS)
    one, other = streamed.choices[0], whole.choices[0]
    assert (one.finish_reason, other.finish_reason) == ("tool_calls", "tool_calls")
    made = [
        [(each.function.name, each.function.arguments) for each in choice.message.tool_calls or ()]
        for choice in (one, other)
    ]
    assert made == [MADE, MADE]
    assert (one.message.role, one.message.content or None) == ("assistant", other.message.content)
    assert streamed.usage == whole.usage
    assert streamed.object == whole.object == "chat.completion"


async def test_choices_of_one_stream_are_kept_apart(asking: Gateway) -> None:
    async with (
        asking.openai() as client,
        client.chat.completions.stream(model="podium", messages=TASK, tools=TOOLS, n=2) as stream,
    ):
        whole = await stream.get_final_completion()
    assert [choice.index for choice in whole.choices] == [0, 1]
    ids = [call.id for choice in whole.choices for call in choice.message.tool_calls or ()]
    assert len(set(ids)) == 2 * len(MADE)


async def test_an_answer_is_told_in_pieces_and_once_at_its_end(gateway: Gateway) -> None:
    answer = "It is warm. " * 100
    gateway.episodes.script = lambda _: [
        make_decision(1, final_answer="x"),
        make_finish(answer=answer),
    ]
    events = await events_of(gateway)
    kinds = without_repetitions(each.type for each in events if each.type != "chunk")
    assert kinds == ["content.delta", "content.done"]
    pieces = [each for each in events if each.type == "content.delta"]
    assert len(pieces) > 1 and "".join(each.delta for each in pieces) == answer
    assert pieces[-1].snapshot == answer
