import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiohttp import web

from embedded_servers import Database
from integration.tool_adapters.adapters_under_test import (
    AdaptersUnderTest,
    run_adapters,
    running_registry,
)
from integration.tool_adapters.test_llm_tools import counted
from integration.tool_adapters.tool_specs import llm_spec
from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium.common.v1 import failure_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.registry.v1 import tool_pb2

STOP: dict[str, Any] = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
ASKED = pb.Conversation(
    messages=[orchestrator_pb.ConversationMessage(role="user", content="How many?")]
)


def wrote(text: Any, **extra: Any) -> dict[str, Any]:
    return {"id": "c-1", "choices": [{"index": 0, "delta": {"content": text}}], **extra}


def ended(reason: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


class Scripted:
    def __init__(self, *events: dict[str, Any] | bytes, rejects: dict[str, Any]) -> None:
        self._events, self._rejects = events, rejects
        self.asked: list[dict[str, Any]] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.asked.append(body)
        for name, fault in self._rejects.items():
            if name in body:
                return web.json_response(fault, status=400)
        if "stream" not in body:
            message = {"message": {"content": "hello"}, "finish_reason": "stop"}
            return web.json_response({"choices": [message]})
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for event in self._events:
            data = event if isinstance(event, bytes) else f"data: {json.dumps(event)}\n\n".encode()
            await response.write(data)
        await response.write(b"data: [DONE]\n\n")
        return response


@asynccontextmanager
async def scripted(
    *events: dict[str, Any] | bytes, rejects: dict[str, Any] | None = None
) -> AsyncIterator[tuple[Scripted, str]]:
    model = Scripted(*events, rejects=rejects or {})
    app = web.Application()
    app.router.add_post("/v1/chat/completions", model.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield model, f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


async def answer_to(
    adapters: AdaptersUnderTest, *events: dict[str, Any] | bytes, **asked: Any
) -> pb.InvokeResponse:
    async with scripted(*events) as (_, url):
        spec = llm_spec(url)
        spec.name = f"expert-{uuid4()}"
        return await adapters.call(adapters.register(spec), **asked)


USAGE = {"prompt_tokens": 1000, "completion_tokens": 20}


@pytest.mark.parametrize(
    "event",
    [
        {"usage": USAGE},
        {"usage": USAGE, "choices": None},
        {"usage": USAGE, "choices": []},
        {"usage": USAGE, "choices": [{"index": 0, "content_filter_results": {}}]},
        {"usage": USAGE, "choices": [{"index": 0, "delta": None}]},
        {"choices": [{"index": 0, "delta": {}, "usage": USAGE}]},
        {"x_groq": {"id": "r", "usage": USAGE}, "choices": []},
        {"usage": {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020}},
    ],
)
async def test_a_report_is_read_wherever_it_is(
    adapters: AdaptersUnderTest, event: dict[str, Any]
) -> None:
    answer = await answer_to(adapters, wrote("hel"), wrote("lo"), STOP, event)
    assert answer.output.content == "hello"
    assert counted(answer) == {"INPUT_FRESH": 1000, "OUTPUT_TEXT": 20}


@pytest.mark.parametrize(
    "cached",
    [
        {"cached_tokens": 900},
        {"prompt_cache_hit_tokens": 900, "prompt_cache_miss_tokens": 100},
        {"num_cached_tokens": 900},
        {"prompt_tokens_details": {"cached_tokens": 900}},
        {"prompt_tokens_details": {"cached_tokens": 0}, "cached_tokens": 900},
        {"prompt_tokens_details": {"cached_tokens": 900}, "cached_tokens": 900},
    ],
)
async def test_cached_tokens_are_priced_as_cached_wherever_they_are_counted(
    adapters: AdaptersUnderTest, cached: dict[str, Any]
) -> None:
    answer = await answer_to(adapters, wrote("hi"), STOP, {"usage": {**USAGE, **cached}})
    assert counted(answer) == {"INPUT_FRESH": 100, "CACHE_READ": 900, "OUTPUT_TEXT": 20}


@pytest.mark.parametrize(
    ("tier", "served"), [("flex", "flex"), ("priority", "priority"), ("default", ""), (None, "")]
)
async def test_the_class_of_service_that_answered_is_carried(
    adapters: AdaptersUnderTest, tier: str | None, served: str
) -> None:
    answer = await answer_to(adapters, wrote("hi", service_tier=tier), STOP, {"usage": USAGE})
    assert answer.usage.service_class == served


async def test_a_mark_of_byte_order_hides_no_event(adapters: AdaptersUnderTest) -> None:
    first = f"data: {json.dumps(wrote('hel'))}\n\n".encode()
    for pieces in ((b"\xef\xbb\xbf" + first,), (b"\xef", b"\xbb", b"\xbf", first)):
        answer = await answer_to(adapters, *pieces, wrote("lo"), STOP)
        assert answer.output.content == "hello"


async def test_thoughts_among_the_parts_of_a_content_are_no_text(
    adapters: AdaptersUnderTest,
) -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    parts = [thought, {"type": "text", "text": "hello"}]
    answer = await answer_to(adapters, wrote(parts), wrote(None), STOP)
    assert answer.output.content == "hello"


@pytest.mark.parametrize(
    ("reason", "carried"),
    [
        ("length", "length"),
        ("model_length", "length"),
        ("model_context_window_exceeded", "length"),
        ("content_filter", "content_filter"),
        ("SAFETY", "content_filter"),
        ("refusal", "refusal"),
        ("stop", "stop"),
        ("eos", "stop"),
    ],
)
async def test_the_reason_for_the_end_of_a_text_is_carried(
    adapters: AdaptersUnderTest, reason: str, carried: str
) -> None:
    for conversation in (None, ASKED):
        answer = await answer_to(
            adapters, wrote("half a"), ended(reason), conversation=conversation
        )
        assert (answer.output.content, answer.finish_reason) == ("half a", carried)
    # Who speaks to the model directly also learns that it wrote nothing, and why.
    empty = await answer_to(adapters, ended(reason), conversation=ASKED)
    if carried != "stop":
        assert (empty.output.content, empty.finish_reason) == ("", carried)


async def test_words_of_a_refusal_reach_the_caller(adapters: AdaptersUnderTest) -> None:
    refusal = {"choices": [{"index": 0, "delta": {"refusal": "I cannot help with that."}}]}
    answer = await answer_to(adapters, refusal, STOP)
    assert answer.output.content == "I cannot help with that."
    assert answer.finish_reason == "refusal"


async def test_a_model_that_rejects_a_parameter_is_asked_without_it_from_then_on(
    adapters: AdaptersUnderTest,
) -> None:
    def fault(name: str, instead: str = "") -> dict[str, Any]:
        message = f"Unsupported parameter: '{name}' is not supported with this model.{instead}"
        return {"error": {"message": message, "param": name, "code": "unsupported_parameter"}}

    rejects = {
        "max_tokens": fault("max_tokens", " Use 'max_completion_tokens' instead."),
        "temperature": fault("temperature"),
        "stream": {"error": {"message": "must be verified to stream", "param": "stream"}},
    }
    async with scripted(rejects=rejects) as (model, url):
        name = adapters.register(llm_spec(url, llm={"temperature": 0.2}))
        answer = await adapters.call(name)
        assert answer.output.content == "hello", answer.failure
        assert answer.attempts == 1
        before = len(model.asked)
        assert (await adapters.call(name)).output.content == "hello"
    # It is learnt once.
    assert (before, len(model.asked)) == (4, 5)
    assert model.asked[-1]["max_completion_tokens"] > 0
    assert not {"max_tokens", "temperature", "stream", "stream_options"} & model.asked[-1].keys()


async def test_a_model_is_asked_as_its_owner_states_at_once_and_learns_beside_it(
    adapters: AdaptersUnderTest,
) -> None:
    message = "Unsupported parameter: 'temperature' is not supported with this model."
    fault = {"error": {"message": message, "param": "temperature"}}
    capabilities = tool_pb2.LlmCapabilities(family="openai", sampling="accepted")
    async with scripted(wrote("hello"), STOP, rejects={"temperature": fault}) as (model, url):
        spec = llm_spec(url, llm={"temperature": 0.2})
        for stated in spec.connection.llm.models:
            stated.capabilities.CopyFrom(capabilities)
        name = adapters.register(spec)
        for _ in range(2):
            assert (await adapters.call(name)).output.content == "hello"
    sent = [
        (set(body) & {"max_tokens", "max_completion_tokens", "temperature"}) for body in model.asked
    ]
    assert sent == [{"max_completion_tokens", "temperature"}, *[{"max_completion_tokens"}] * 2]


async def test_replicas_share_what_a_model_taught_one_of_them(
    database: Database, tmp_path: Path
) -> None:
    def fault(name: str) -> dict[str, Any]:
        message = f"Unsupported parameter: '{name}' is not supported with this model."
        return {"error": {"message": message, "param": name, "code": "unsupported_parameter"}}

    rejects = {name: fault(name) for name in ("max_tokens", "temperature")}
    url = await database("tool_adapters")
    (tmp_path / "other").mkdir()
    async with (
        running_registry() as registry,
        run_adapters(url, tmp_path, registry) as one,
        run_adapters(url, tmp_path / "other", registry) as other,
        scripted(wrote("hello"), STOP, rejects=rejects) as (model, base_url),
    ):
        name = one.register(llm_spec(base_url, llm={"temperature": 0.2}))
        for replica in (one, other, one, other):
            assert (await replica.call(name)).output.content == "hello"
    # Two rejections and four answers.
    assert len(model.asked) == 6


async def test_gpt5_is_never_asked_for_what_it_rejects(adapters: AdaptersUnderTest) -> None:
    fault = {"error": {"message": "Unsupported parameter", "code": "unsupported_parameter"}}
    rejects = dict.fromkeys(("max_tokens", "temperature"), fault)
    async with scripted(wrote("hello"), STOP, rejects=rejects) as (model, url):
        spec = llm_spec(url, llm={"temperature": 0.2})
        for each in spec.connection.llm.models:
            each.model = "gpt-5-mini"
        assert (await adapters.call(adapters.register(spec))).output.content == "hello"
    assert len(model.asked) == 1


async def test_a_model_that_rejects_everything_is_not_asked_for_ever(
    adapters: AdaptersUnderTest,
) -> None:
    names = ("max_tokens", "max_completion_tokens")
    fault = {"error": {"message": "Unsupported parameter: 'max_tokens'", "param": "max_tokens"}}
    async with scripted(rejects=dict.fromkeys(names, fault)) as (model, url):
        answer = await adapters.call(adapters.register(llm_spec(url)))
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_TOOL_ERROR
    assert len(model.asked) == 2
