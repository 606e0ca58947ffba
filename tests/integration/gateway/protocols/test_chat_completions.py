import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam
from uuid_utils import uuid7

from integration.gateway.gateway_under_test import Gateway
from integration.gateway.scripted_episodes import (
    Script,
    make_decision,
    make_failure,
    make_finish,
)
from podium_kit.derived_ids import derived_uuid8

TASK: list[ChatCompletionMessageParam] = [{"role": "user", "content": "6*7?"}]


def ending(stop_reason: str, **fields: Any) -> Script:
    return lambda request: [make_finish(stop_reason, **fields)]


async def wait_for(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


async def test_the_answer_comes_with_usage_cost_and_episode(gateway: Gateway) -> None:
    async with gateway.openai() as client:
        raw = await client.chat.completions.with_raw_response.create(model="smollm2", messages=TASK)
    answer = raw.parse()
    assert answer.choices[0].message.content == "The answer to '6*7?' is 42."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage and answer.usage.prompt_tokens_details
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (150, 25)
    assert answer.usage.prompt_tokens_details.cached_tokens == 50
    extra = (answer.model_extra or {})["podium"]
    assert extra["cost"] == {"amount": "0.00023", "currency_code": "USD"}
    assert extra["stop_reason"] == "answered"
    assert extra["turns"] == 2
    assert raw.headers["x-podium-episode"] == extra["episode_id"]
    assert extra["episode_id"] in gateway.episodes.episodes


@pytest.mark.parametrize("streamed", [False, True])
async def test_only_the_end_is_watched_of_an_answer_that_comes_whole(
    gateway: Gateway, *, streamed: bool
) -> None:
    watches = len(gateway.episodes.end_only)
    async with gateway.openai() as client:
        await client.chat.completions.create(model="podium", messages=TASK, stream=streamed)
        await wait_for(lambda: len(gateway.episodes.end_only) > watches)
    assert gateway.episodes.end_only[watches:] == [not streamed]


async def test_the_synchronous_client_works_too(gateway: Gateway) -> None:
    def ask() -> str | None:
        with openai.OpenAI(base_url=f"{gateway.base_url}/v1", api_key=gateway.key) as client:
            answer = client.chat.completions.create(model="podium", messages=TASK)
            return answer.choices[0].message.content

    assert await asyncio.to_thread(ask) == "The answer to '6*7?' is 42."


async def test_a_stream_shows_turns_then_the_answer_then_usage(gateway: Gateway) -> None:
    async with gateway.openai() as client:
        stream = await client.chat.completions.create(
            model="smollm2", messages=TASK, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    reasoning = "".join((delta.model_extra or {}).get("reasoning_content", "") for delta in deltas)
    assert 'Turn 1: I need to multiply. calculator({"expression": "6*7"})' in reasoning
    assert "calculator returned 42" in reasoning
    assert "".join(delta.content or "" for delta in deltas) == "The answer to '6*7?' is 42."
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage and chunks[-1].usage.total_tokens == 175


async def test_what_is_not_read_of_a_request_is_named_in_a_header(gateway: Gateway) -> None:
    """Public report 49."""
    said: dict[str, Any] = {"model": "podium", "messages": TASK, "temprature": 1}
    bodies: dict[str, dict[str, Any]] = {
        "/v1/chat/completions": said,
        "/v1/messages": {**said, "max_tokens": 99},
        "/v1/responses": {"model": "podium", "input": "6*7?", "temprature": 1},
    }
    for path, body in bodies.items():
        for stream in (False, True):
            reply = await gateway.post(path, json={**body, "stream": stream})
            assert (reply.status_code, reply.headers["x-podium-ignored"]) == (200, "temprature")
    plain = await gateway.post("/v1/chat/completions", json={"model": "podium", "messages": TASK})
    assert "x-podium-ignored" not in plain.headers


async def test_turns_arrive_while_the_episode_runs(gateway: Gateway) -> None:
    gateway.episodes.script = lambda request: [make_decision(1, thought="Hm.", final_answer="1")]
    async with gateway.openai() as client:
        stream = await client.chat.completions.create(model="podium", messages=TASK, stream=True)
        seen = ""
        async for chunk in stream:
            seen += (chunk.choices[0].delta.model_extra or {}).get("reasoning_content", "")
            if seen:
                break
        # The script never finishes the episode, so this line can only have come live.
        assert seen == "Turn 1: Hm. final answer\n"
        await stream.close()


async def test_history_options_and_sampling_reach_the_episode(gateway: Gateway) -> None:
    messages: list[ChatCompletionMessageParam] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
        {"role": "assistant", "content": "Hi."},
        *TASK,
    ]
    options = {
        "tools": ["calculator"],
        "turn_limit": 3,
        "budget_usd": "0.25",
        "time_limit_s": 1.5,
        "prompt_mode": "chat",
        "labels": {"team": "search"},
    }
    async with gateway.openai() as client:
        await client.chat.completions.create(
            model="llama:8b:cost-first",
            messages=messages,
            max_tokens=7,
            temperature=0.5,
            top_p=0.9,
            seed=3,
            n=1,
            extra_body={"podium": options},
        )
    (running,) = gateway.episodes.episodes.values()
    spec = running.request.spec
    assert [(each.role, each.content) for each in spec.history] == [
        ("system", "Be brief."),
        ("user", "Hello"),
        ("assistant", "Hi."),
    ]
    assert (spec.model, spec.policy, list(spec.tool_names)) == (
        "llama:8b",
        "cost-first",
        ["calculator"],
    )
    assert (spec.turn_limit, spec.budget.amount, spec.time_limit.ToMilliseconds()) == (
        3,
        "0.25",
        1500,
    )
    assert (spec.sampling.max_tokens, spec.sampling.temperature, spec.sampling.seed) == (7, 0.5, 3)
    assert spec.output_token_limit == 7
    assert (spec.sampling.top_p, spec.prompt_mode, dict(spec.labels)) == (
        0.9,
        2,
        {"team": "search"},
    )


@pytest.mark.parametrize(
    "stop_reason", ["TURN_LIMIT", "OUTPUT_LIMIT", "BUDGET_EXHAUSTED", "DEADLINE"]
)
async def test_work_a_limit_cut_short_finishes_with_length(
    gateway: Gateway, stop_reason: str
) -> None:
    gateway.episodes.script = ending(stop_reason, answer="so far")
    async with gateway.openai() as client:
        answer = await client.chat.completions.create(model="podium", messages=TASK)
    assert answer.choices[0].finish_reason == "length"
    assert answer.choices[0].message.content == "so far"
    assert (answer.model_extra or {})["podium"]["stop_reason"] == stop_reason.lower()


@pytest.mark.parametrize(
    ("script", "status", "code"),
    [
        (
            ending("FAILED", failure=make_failure("UNAVAILABLE", "no model answers")),
            503,
            "episode_unavailable",
        ),
        (
            ending("FAILED", failure=make_failure("RATE_LIMITED", "slow down")),
            429,
            "episode_rate_limited",
        ),
        (ending("FAILED", failure=make_failure("INTERNAL", "bug")), 500, "episode_internal"),
        (
            ending("FAILED", failure=make_failure("CONTEXT_TOO_LONG", "9000 of 8192 tokens")),
            400,
            "context_length_exceeded",
        ),
        (ending("BUDGET_EXHAUSTED", turns=0), 402, "episode_budget_exhausted"),
        (ending("CANCELLED"), 400, "episode_cancelled"),
    ],
)
async def test_an_episode_without_an_answer_is_an_error(
    gateway: Gateway, script: Script, status: int, code: str
) -> None:
    gateway.episodes.script = script
    async with gateway.openai() as client:
        with pytest.raises(openai.APIStatusError) as raised:
            await client.chat.completions.create(model="podium", messages=TASK)
    assert raised.value.status_code == status
    assert raised.value.code == code
    # Not retried behind the caller's back: every retry would be a new episode to pay for.
    assert len(gateway.episodes.episodes) == 1


async def test_a_failure_in_a_stream_is_an_error_event(gateway: Gateway) -> None:
    failure = make_failure("UNAVAILABLE", "no model answers")
    gateway.episodes.script = ending("FAILED", failure=failure)
    async with gateway.openai() as client:
        stream = await client.chat.completions.create(model="podium", messages=TASK, stream=True)
        with pytest.raises(openai.APIError, match="no model answers"):
            async for _ in stream:
                pass


@pytest.mark.parametrize(
    ("body", "status", "param", "words"),
    [
        ({"model": "gpt-5"}, 404, "model", "models are podium, smollm2, llama:8b"),
        ({"model": "smollm2:cheapest"}, 404, "model", "policies are balanced, cost-first"),
        ({"n": 9}, 400, "n", "less than or equal to 8"),
        ({"stop": ["a", "b", "c", "d", "e"]}, 400, "stop", "at most 4"),
        ({"stop": ""}, 400, "stop.0", "at least 1"),
        ({"logprobs": True}, 400, "logprobs", "/trajectory has them"),
        ({"tools": [{"type": "function"}]}, 400, "tools.0.function.function", "required"),
        ({"functions": [{"name": "f"}]}, 400, "functions", "send tools instead"),
        ({"response_format": {"type": "xml"}}, 400, "response_format.Text.type", "'text'"),
        ({"tool_choice": "required"}, 400, "tool_choice", "required needs tools"),
        ({"temperature": 3}, 400, "temperature", "less than or equal to 2"),
        ({"messages": []}, 400, "messages", "at least 1"),
        ({"messages": [{"role": "user", "content": "  "}]}, 400, "messages", "empty"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, 400, "messages", "must be user"),
        ({"podium": {"turnlimit": 3}}, 400, "podium.turnlimit", "not permitted"),
        ({"podium": {"budget_usd": "1e-13"}}, 400, "podium.budget_usd", "12 decimal places"),
        ({"podium": {"tools": ["wether"]}}, 404, "tools", "no tool wether"),
    ],
)
async def test_a_bad_request_names_its_cause(
    gateway: Gateway, body: dict[str, object], status: int, param: str | None, words: str
) -> None:
    reply = await gateway.post(
        "/v1/chat/completions", json={"model": "podium", "messages": TASK, **body}
    )
    error = reply.json()["error"]
    assert (reply.status_code, error["param"]) == (status, param)
    assert words in error["message"]
    assert not gateway.episodes.episodes


async def test_half_a_character_is_rejected(gateway: Gateway) -> None:
    body = b'{"model": "podium", "messages": [{"role": "user", "content": "\\ud800"}]}'
    headers = {"content-type": "application/json"}
    reply = await gateway.post("/v1/chat/completions", content=body, headers=headers)
    assert (reply.status_code, reply.json()["error"]["reason"]) == (400, "MALFORMED_REQUEST")


async def test_a_client_that_goes_away_cancels_its_episode(gateway: Gateway) -> None:
    gateway.episodes.script = lambda request: []
    async with gateway.http() as http:
        waiting = asyncio.create_task(
            http.post("/v1/chat/completions", json={"model": "podium", "messages": TASK})
        )
        await wait_for(lambda: gateway.episodes.watching == 1)
        waiting.cancel()
        await wait_for(lambda: bool(gateway.episodes.cancel_reasons))
    assert list(gateway.episodes.cancel_reasons.values()) == ["the client disconnected"]
    await wait_for(lambda: gateway.episodes.watching == 0)


async def test_a_closed_stream_cancels_its_episode(gateway: Gateway) -> None:
    gateway.episodes.script = lambda request: []
    async with gateway.openai() as client:
        stream = await client.chat.completions.create(model="podium", messages=TASK, stream=True)
        await stream.close()
        await wait_for(lambda: bool(gateway.episodes.cancel_reasons))
    await wait_for(lambda: gateway.episodes.watching == 0)


async def test_an_episode_the_caller_named_survives_its_disconnect_and_is_found_again(
    gateway: Gateway,
) -> None:
    headers, body = {"idempotency-key": "order 66"}, {"model": "podium", "messages": TASK}
    gateway.episodes.pause_s = 0.1
    async with gateway.http() as http:
        first = asyncio.create_task(http.post("/v1/chat/completions", json=body, headers=headers))
        await wait_for(lambda: gateway.episodes.watching == 1)
        first.cancel()
        await wait_for(lambda: gateway.episodes.watching == 0)
        again = await http.post("/v1/chat/completions", json=body, headers=headers)
    assert again.json()["choices"][0]["message"]["content"] == "The answer to '6*7?' is 42."
    assert len(gateway.episodes.episodes) == 1
    assert not gateway.episodes.cancel_reasons


async def test_the_same_episode_id_with_another_task_is_a_conflict(gateway: Gateway) -> None:
    headers = {"x-episode-id": str(uuid7())}
    other = [{"role": "user", "content": "7*7?"}]
    async with gateway.http() as http:
        path = "/v1/chat/completions"
        await http.post(path, json={"model": "podium", "messages": TASK}, headers=headers)
        reply = await http.post(path, json={"model": "podium", "messages": other}, headers=headers)
    assert (reply.status_code, reply.json()["error"]["reason"]) == (409, "EPISODE_CONFLICT")


async def test_an_id_that_the_platform_derives_is_no_id_for_a_caller(gateway: Gateway) -> None:
    headers = {"x-episode-id": derived_uuid8(str(uuid7()), "child")}
    body = {"model": "podium", "messages": TASK}
    reply = await gateway.post("/v1/chat/completions", json=body, headers=headers)
    assert (reply.status_code, reply.json()["error"]["reason"]) == (400, "INVALID_EPISODE_ID")
    assert not gateway.episodes.episodes


async def test_a_broken_watch_resumes_where_it_broke(gateway: Gateway) -> None:
    gateway.episodes.watches_to_break = 3
    async with gateway.openai() as client:
        stream = await client.chat.completions.create(model="podium", messages=TASK, stream=True)
        deltas = [chunk.choices[0].delta async for chunk in stream]
    lines = [(delta.model_extra or {}).get("reasoning_content") for delta in deltas]
    assert len([line for line in lines if line]) == 4
    assert gateway.episodes.resumed_after == [0, 1, 2, 3]


async def test_256_requests_wait_at_once(gateway: Gateway) -> None:
    gateway.episodes.pause_s = 0.5
    body = {"model": "podium", "messages": TASK}

    async def ask() -> httpx.Response:
        return await gateway.post("/v1/chat/completions", json=body)

    replies = await asyncio.gather(*(ask() for _ in range(256)))
    assert {reply.status_code for reply in replies} == {200}
    ids = {json.loads(reply.content)["podium"]["episode_id"] for reply in replies}
    assert len(ids) == 256
