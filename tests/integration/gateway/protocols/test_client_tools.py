import json
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionMessageParam
from uuid_utils import uuid7

from gateway.chat.call_ids import CallId
from integration.gateway.gateway_under_test import Gateway
from integration.gateway.scripted_episodes import (
    make_client_calls,
    make_decision,
    make_finish,
    make_tool_return,
    make_usage,
)
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator

TASK: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Is it warm?"}]
SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "getWeather",
        "description": "weather now",
        "parameters": {"$schema": "http://json-schema.org/draft-07/schema#", **SCHEMA},
        "strict": True,
    },
}
ARGUMENTS = ('{"city": "Oslo"}', '{"city": "Lyon"}')
CALLS = [
    orchestrator.ToolCall(index=index, tool_name="getWeather", arguments_json=arguments)
    for index, arguments in enumerate(ARGUMENTS)
]
SAMPLED = make_usage(INPUT_FRESH=60, OUTPUT_TEXT=7)


def asks(request: pb.StartEpisodeRequest) -> list[episode_pb2.EpisodeEvent]:
    calls = orchestrator.ToolCalls(calls=CALLS)
    return [
        episode_pb2.EpisodeEvent(started=episode_pb2.EpisodeStarted(tool_names=["getWeather"])),
        make_decision(1, used=SAMPLED, tool_calls=calls),
        make_client_calls(1, *CALLS),
    ]


def tells(request: pb.AnswerToolCallsRequest) -> list[episode_pb2.EpisodeEvent]:
    said = " and ".join(result.content for result in request.results)
    return [make_tool_return(1, content=said), make_finish(answer=f"It is {said}.")]


@pytest.fixture
def weather(gateway: Gateway) -> Gateway:
    gateway.episodes.script, gateway.episodes.sequel = asks, tells
    return gateway


def with_results(answer: ChatCompletion, *contents: str) -> list[ChatCompletionMessageParam]:
    message = answer.choices[0].message
    results: Any = [
        {"role": "tool", "tool_call_id": call.id, "content": content}
        for call, content in zip(message.tool_calls or (), contents, strict=True)
    ]
    asked: Any = message.model_dump(exclude_none=True)
    return [*TASK, asked, *results]


async def test_a_request_ends_with_calls_and_the_next_goes_on_with_the_same_episode(
    weather: Gateway,
) -> None:
    async with weather.openai() as client:
        first = await client.chat.completions.create(
            model="podium", messages=TASK, tools=[WEATHER], tool_choice="auto"
        )
        messages = with_results(first, "cold", "hot")
        second = await client.chat.completions.create(
            model="podium", messages=messages, tools=[WEATHER]
        )
        again = await client.chat.completions.create(
            model="podium", messages=messages, tools=[WEATHER]
        )
    [choice] = first.choices
    assert choice.finish_reason == "tool_calls" and choice.message.content is None
    made = [(call.function.name, call.function.arguments) for call in choice.message.tool_calls]  # type: ignore[union-attr]
    assert made == [("getWeather", '{"city": "Oslo"}'), ("getWeather", '{"city": "Lyon"}')]
    assert second.choices[0].message.content == "It is cold and hot."
    assert second.choices[0].message.tool_calls is None
    assert again.choices == second.choices
    [(episode_id, running)] = weather.episodes.episodes.items()
    assert {answer.id for answer in (first, second)} == {f"chatcmpl-{episode_id}"}
    [tool] = running.request.spec.client_tools
    assert (tool.name, tool.description) == ("getWeather", "weather now")
    assert json.loads(tool.parameters_json_schema) == SCHEMA
    assert [result.content for result in weather.episodes.answers[0].results] == ["cold", "hot"]


async def test_each_request_reports_the_tokens_that_it_used(weather: Gateway) -> None:
    async with weather.openai() as client:
        first = await client.chat.completions.create(model="podium", messages=TASK, tools=[WEATHER])
        second = await client.chat.completions.create(
            model="podium", messages=with_results(first, "cold", "hot")
        )
    assert first.usage and second.usage
    assert (first.usage.prompt_tokens, first.usage.completion_tokens) == (60, 7)
    # The whole episode used 150 and 25.
    assert (second.usage.prompt_tokens, second.usage.completion_tokens) == (90, 18)


async def test_a_stream_tells_which_function_then_its_arguments(weather: Gateway) -> None:
    async with (
        weather.openai() as client,
        client.chat.completions.stream(model="podium", messages=TASK, tools=[WEATHER]) as stream,
    ):
        chunks = [event.chunk async for event in stream if event.type == "chunk"]
        whole = await stream.get_final_completion()
    deltas = [
        (call.index, bool(call.id), call.function.name, call.function.arguments)
        for chunk in chunks
        for choice in chunk.choices
        for call in choice.delta.tool_calls or ()
        if call.function
    ]
    assert deltas == [
        (0, True, "getWeather", ""),
        (0, False, None, '{"city": "Oslo"}'),
        (1, True, "getWeather", ""),
        (1, False, None, '{"city": "Lyon"}'),
    ]
    assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "tool_calls"
    calls = whole.choices[0].message.tool_calls or []
    assert [call.function.arguments for call in calls] == ['{"city": "Oslo"}', '{"city": "Lyon"}']
    assert CallId.read(calls[1].id) == CallId(next(iter(weather.episodes.episodes)), 1, 1)


async def test_none_offers_nothing_and_results_of_others_are_told_to_a_new_episode(
    gateway: Gateway,
) -> None:
    call: Any = {
        "id": "call_abc",
        "type": "function",
        "function": {"name": "getWeather", "arguments": '{"city": "Oslo"}'},
    }
    messages: list[ChatCompletionMessageParam] = [
        {"role": "system", "content": "Be brief."},
        *TASK,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_abc", "content": "cold"},
    ]
    async with gateway.openai() as client:
        await client.chat.completions.create(
            model="podium", messages=messages, tools=[WEATHER], tool_choice="none"
        )
        await client.chat.completions.create(
            model="podium", messages=[*messages, {"role": "user", "content": "And in Lyon?"}]
        )
    first, second = (each.request.spec for each in gateway.episodes.episodes.values())
    said = 'assistant: getWeather({"city": "Oslo"})\n\nuser: getWeather returned cold'
    assert first.task == f"Is it warm?\n\n{said}" and not first.client_tools
    assert [(each.role, each.content) for each in first.history] == [("system", "Be brief.")]
    assert second.task == "And in Lyon?"
    assert [each.content for each in second.history][1:] == [
        "Is it warm?",
        'getWeather({"city": "Oslo"})',
        "getWeather returned cold",
    ]


@pytest.mark.parametrize(
    ("choice", "first"),
    [
        ("auto", []),
        ("required", ["getWeather", "clock"]),
        ({"type": "function", "function": {"name": "clock"}}, ["clock"]),
    ],
)
async def test_a_choice_names_what_is_called_first(
    gateway: Gateway, choice: Any, first: list[str]
) -> None:
    clock: Any = {"type": "function", "function": {"name": "clock"}}
    async with gateway.openai() as client:
        await client.chat.completions.create(
            model="podium", messages=TASK, tools=[WEATHER, clock], tool_choice=choice
        )
    [running] = gateway.episodes.episodes.values()
    assert list(running.request.spec.first_tool_names) == first
    assert running.request.spec.client_tools[1].parameters_json_schema == ""


async def test_a_choice_of_no_tool_is_rejected(gateway: Gateway) -> None:
    choice: Any = {"type": "function", "function": {"name": "clock"}}
    async with gateway.openai() as client:
        with pytest.raises(openai.BadRequestError, match="clock is not among tools"):
            await client.chat.completions.create(
                model="podium", messages=TASK, tools=[WEATHER], tool_choice=choice
            )


async def test_results_for_no_episode_of_the_tenant_are_rejected(weather: Gateway) -> None:
    made_up = str(CallId(str(uuid7()), 1, 0))
    messages: list[ChatCompletionMessageParam] = [
        *TASK,
        {"role": "tool", "tool_call_id": made_up, "content": "cold"},
    ]
    async with weather.openai() as client:
        with pytest.raises(openai.NotFoundError, match="there is no episode"):
            await client.chat.completions.create(model="podium", messages=messages)
        other: Any = {
            "role": "tool",
            "tool_call_id": str(CallId(str(uuid7()), 1, 0)),
            "content": "",
        }
        with pytest.raises(openai.BadRequestError, match="calls of different turns"):
            await client.chat.completions.create(model="podium", messages=[*messages, other])
