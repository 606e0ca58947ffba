import json
from typing import cast

import openai
import pytest
from openai.types.chat import (
    ChatCompletionMessageParam,
    ChatCompletionToolParam,
    ChatCompletionUserMessageParam,
)

from e2e.conftest import CLIENT_TASK, MODEL, WholePlatform
from e2e.episodes_over_http import trajectory

QUESTION: ChatCompletionUserMessageParam = {"role": "user", "content": "What is 6 x 7?"}
ONLY_SUMS = {"podium": {"tools": ["calculator"]}}


def client_of(whole: WholePlatform, api_key: str | None = None) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(
        base_url=f"{whole.connection.gateway_url}/v1",
        api_key=api_key or whole.connection.api_key,
        max_retries=0,
    )


async def test_chat_answers_with_usage(whole: WholePlatform) -> None:
    reply = await client_of(whole).chat.completions.create(
        model=MODEL,
        messages=[QUESTION],
        extra_body=ONLY_SUMS,
    )
    assert reply.choices[0].message.content == "42"
    assert reply.choices[0].finish_reason == "stop"
    assert reply.usage is not None
    assert reply.usage.prompt_tokens > 0 < reply.usage.completion_tokens


async def test_streamed_chat_gives_the_answer_in_chunks_and_usage_at_the_end(
    whole: WholePlatform,
) -> None:
    stream = await client_of(whole).chat.completions.create(
        model=MODEL,
        messages=[QUESTION],
        stream=True,
        stream_options={"include_usage": True},
        extra_body=ONLY_SUMS,
    )
    chunks = [chunk async for chunk in stream]
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == "42"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens > 0


async def test_a_function_of_the_client_is_a_tool_beside_the_platforms(
    whole: WholePlatform,
) -> None:
    client = client_of(whole)
    weather: ChatCompletionToolParam = {
        "type": "function",
        "function": {
            "name": "getWeather",
            "description": "weather at our own stations",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    }
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": CLIENT_TASK}]
    asked = await client.chat.completions.create(
        model=MODEL, messages=messages, tools=[weather], extra_body=ONLY_SUMS
    )
    assert asked.choices[0].finish_reason == "tool_calls"
    message = asked.choices[0].message
    [call] = message.tool_calls or []
    assert call.type == "function"
    assert (call.function.name, json.loads(call.function.arguments)) == (
        "getWeather",
        {"city": "Oslo"},
    )
    messages.append(cast(ChatCompletionMessageParam, message.model_dump(exclude_none=True)))
    messages.append({"role": "tool", "tool_call_id": call.id, "content": "-3 degrees"})
    reply = await client.chat.completions.create(model=MODEL, messages=messages, tools=[weather])
    assert reply.choices[0].message.content == "42"
    assert reply.id == asked.id
    async with whole.client() as http:
        found = await trajectory(http, reply.id.removeprefix("chatcmpl-"))
    used = [
        (made["observation"]["call"]["tool_name"], made["observation"]["content"])
        for turn in found["turns"]
        for made in turn.get("tool_invocations", ())
    ]
    assert used == [("getWeather", "-3 degrees"), ("calculator", "42")]
    assert not found.get("unpriced_call_count")


async def test_models_are_listed(whole: WholePlatform) -> None:
    models = await client_of(whole).models.list()
    assert MODEL in [model.id for model in models.data]


async def test_wrong_key_is_an_authentication_error(whole: WholePlatform) -> None:
    with pytest.raises(openai.AuthenticationError):
        await client_of(whole, "pod_wrong_key").models.list()


async def test_unknown_model_is_not_found(whole: WholePlatform) -> None:
    with pytest.raises(openai.NotFoundError, match="gpt-9"):
        await client_of(whole).chat.completions.create(
            model="gpt-9",
            messages=[QUESTION],
        )


async def test_unknown_tool_is_named(whole: WholePlatform) -> None:
    with pytest.raises(openai.APIStatusError, match="teleport"):
        await client_of(whole).chat.completions.create(
            model=MODEL,
            messages=[QUESTION],
            extra_body={"podium": {"tools": ["teleport"]}},
        )


async def test_empty_task_is_a_bad_request(whole: WholePlatform) -> None:
    with pytest.raises(openai.BadRequestError, match="empty"):
        await client_of(whole).chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "  "}]
        )
