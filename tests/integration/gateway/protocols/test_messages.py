import json
from typing import Any

import anthropic
import pytest
from anthropic.types import Message, MessageParam, ToolParam

from integration.gateway.gateway_under_test import Gateway
from integration.gateway.protocols.test_client_tools import ARGUMENTS, SCHEMA, asks, tells
from integration.gateway.scripted_episodes import make_failure, make_finish

TASK: list[MessageParam] = [{"role": "user", "content": "Is it warm?"}]
WEATHER: ToolParam = {
    "name": "getWeather",
    "description": "weather now",
    "input_schema": {"type": "object", **SCHEMA},
}


@pytest.fixture
def weather(gateway: Gateway) -> Gateway:
    gateway.episodes.script, gateway.episodes.sequel = asks, tells
    return gateway


def client_of(gateway: Gateway, key: str = "") -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(
        base_url=gateway.base_url, api_key=key or gateway.key, max_retries=0
    )


def results(message: Message, *contents: str) -> list[MessageParam]:
    calls = [block for block in message.content if block.type == "tool_use"]
    given: Any = [
        {"type": "tool_result", "tool_use_id": call.id, "content": content}
        for call, content in zip(calls, contents, strict=True)
    ]
    made: Any = [block.model_dump(exclude_none=True) for block in calls]
    return [{"role": "assistant", "content": made}, {"role": "user", "content": given}]


async def test_the_answer_comes_with_usage_cost_and_episode(gateway: Gateway) -> None:
    async with client_of(gateway) as client:
        reply = await client.messages.create(
            model="podium:cost-first",
            max_tokens=99,
            system="Be brief.",
            messages=[
                {"role": "user", "content": "Hello"},
                {"role": "assistant", "content": "Hi"},
                {"role": "user", "content": [{"type": "text", "text": "6*7?"}]},
            ],
        )
    assert [block.text for block in reply.content if block.type == "text"] == [
        "The answer to '6*7?' is 42."
    ]
    assert reply.stop_reason == "end_turn"
    assert (reply.usage.input_tokens, reply.usage.cache_read_input_tokens) == (100, 50)
    assert reply.usage.output_tokens == 25
    [(episode_id, running)] = gateway.episodes.episodes.items()
    assert (reply.model_extra or {})["podium"]["episode_id"] == episode_id
    spec = running.request.spec
    assert (spec.policy, spec.sampling.max_tokens) == ("cost-first", 99)
    assert [(each.role, each.content) for each in spec.history] == [
        ("system", "Be brief."),
        ("user", "Hello"),
        ("assistant", "Hi"),
    ]


async def test_functions_of_the_client_are_called_and_answered(weather: Gateway) -> None:
    async with client_of(weather) as client:
        first = await client.messages.create(
            model="podium",
            max_tokens=99,
            messages=TASK,
            tools=[WEATHER],
            tool_choice={"type": "tool", "name": "getWeather"},
        )
        second = await client.messages.create(
            model="podium",
            max_tokens=99,
            messages=[*TASK, *results(first, "cold", "hot")],
            tools=[WEATHER],
        )
    assert first.stop_reason == "tool_use"
    called = [json.dumps(block.input) for block in first.content if block.type == "tool_use"]
    assert called == list(ARGUMENTS)
    assert [block.text for block in second.content if block.type == "text"] == [
        "It is cold and hot."
    ]
    [running] = weather.episodes.episodes.values()
    assert list(running.request.spec.first_tool_names) == ["getWeather"]
    assert [each.content for each in weather.episodes.answers[0].results] == ["cold", "hot"]


async def test_a_stream_builds_the_answer_or_the_calls_up(weather: Gateway) -> None:
    async with client_of(weather) as client:
        async with client.messages.stream(
            model="podium", max_tokens=99, messages=TASK, tools=[WEATHER]
        ) as stream:
            first = await stream.get_final_message()
        async with client.messages.stream(
            model="podium", max_tokens=99, messages=[*TASK, *results(first, "cold", "hot")]
        ) as stream:
            said = [text async for text in stream.text_stream]
    called = [json.dumps(block.input) for block in first.content if block.type == "tool_use"]
    assert called == list(ARGUMENTS) and first.stop_reason == "tool_use"
    assert "".join(said) == "It is cold and hot."


async def test_a_failure_in_a_stream_is_an_error_event(gateway: Gateway) -> None:
    failure = make_failure("UNAVAILABLE", "no model answers")
    gateway.episodes.script = lambda request: [make_finish("FAILED", failure=failure)]
    async with client_of(gateway) as client:
        stream = await client.messages.create(
            model="podium", max_tokens=9, messages=TASK, stream=True
        )
        with pytest.raises(anthropic.APIStatusError, match="no model answers"):
            async for _ in stream:
                pass


async def test_a_wrong_key_is_an_authentication_error(gateway: Gateway) -> None:
    async with client_of(gateway, "pod_wrong_key") as client:
        with pytest.raises(anthropic.AuthenticationError, match="API key is not valid"):
            await client.messages.create(model="podium", max_tokens=9, messages=TASK)


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        ({"messages": []}, "messages", "at least 1"),
        ({"max_tokens": 0}, "max_tokens", "greater than 0"),
        (
            {"messages": [{"role": "user", "content": [{"type": "search_result"}]}]},
            "messages.0.content.0",
            "send blocks of type text",
        ),
        ({"tool_choice": {"type": "any"}}, "tool_choice", "required needs tools"),
        ({"stop_sequences": [""]}, "stop_sequences.0", "at least 1"),
    ],
)
async def test_a_bad_request_names_its_cause(
    gateway: Gateway, body: dict[str, object], param: str, words: str
) -> None:
    plain = {"model": "podium", "max_tokens": 9, "messages": TASK}
    reply = await gateway.post("/v1/messages", json={**plain, **body})
    error = reply.json()["error"]
    assert (reply.status_code, error["param"]) == (400, param)
    assert words in error["message"]
    assert not gateway.episodes.episodes


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_ends_before_a_stop_sequence(gateway: Gateway, stream: bool) -> None:
    gateway.episodes.script = lambda request: [make_finish(answer="warm; and more")]
    wanted: Any = {"model": "podium", "max_tokens": 9, "messages": TASK, "stop_sequences": [";"]}
    async with client_of(gateway) as client:
        if stream:
            async with client.messages.stream(**wanted) as events:
                reply = await events.get_final_message()
        else:
            reply = await client.messages.create(**wanted)
    assert [block.text for block in reply.content if block.type == "text"] == ["warm"]
    assert (reply.stop_reason, reply.stop_sequence) == ("stop_sequence", ";")


async def test_tokens_are_counted_without_an_episode(gateway: Gateway) -> None:
    async with client_of(gateway) as client:
        counted = await client.messages.count_tokens(
            model="podium", system="Be brief.", messages=TASK, tools=[WEATHER]
        )
        with pytest.raises(anthropic.NotFoundError, match="there is no model"):
            await client.messages.count_tokens(model="gpt-5", messages=TASK)
    assert counted.input_tokens == len("Be brief.Is it warm?")
    assert not gateway.episodes.episodes
