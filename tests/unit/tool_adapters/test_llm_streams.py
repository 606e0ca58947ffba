import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from callers import make_identity
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.rpc.identity import acting_as
from tool_adapters.adapter import CallFailed
from tool_adapters.http.client import ArrivingReply, HttpClient, HttpRequest, status_failure
from tool_adapters.llm.apis import AnthropicMessages, LlmApiFormat, OpenAiChat
from tool_adapters.llm.completion import StreamedCompletion
from tool_adapters.llm.stream import read_completion
from tool_adapters.network_guard import NetworkGuard

STARTED = {
    "type": "message_start",
    "message": {"id": "m", "usage": {"input_tokens": 12, "output_tokens": 1}},
}


class Stream:
    status = 200

    def __init__(self, *events: object) -> None:
        self.headers = {"content-type": "text/event-stream"}
        self._events = events

    async def chunks(self) -> AsyncIterator[bytes]:
        for event in self._events:
            yield f"data: {json.dumps(event)}\n\n".encode()


async def failure_of(api: LlmApiFormat, *events: object) -> ToolFailure:
    arriving: Any = Stream(*events)
    with pytest.raises(CallFailed, match="the model server broke off: no") as failed:
        await read_completion(arriving, api, StreamedCompletion(), 65_536)
    return failed.value.failure


def anthropic_error(name: object) -> dict[str, object]:
    return {"type": "error", "error": {"type": name, "message": "no"}}


@pytest.mark.parametrize(
    ("api", "event", "kind", "retryable"),
    [
        (AnthropicMessages(), anthropic_error("overloaded_error"), "UNAVAILABLE", True),
        (AnthropicMessages(), anthropic_error("rate_limit_error"), "RATE_LIMITED", True),
        (AnthropicMessages(), anthropic_error(["new"]), "TOOL_ERROR", False),
        (OpenAiChat(), {"error": {"code": 503, "message": "no"}}, "UNAVAILABLE", True),
        (OpenAiChat(), {"error": {"code": "bad", "message": "no"}}, "TOOL_ERROR", False),
        (OpenAiChat(), {"error": "no"}, "TOOL_ERROR", False),
    ],
)
async def test_an_error_in_a_stream_is_what_its_status_would_have_been(
    api: LlmApiFormat, event: object, kind: str, retryable: bool
) -> None:
    failure = await failure_of(api, event)
    assert (failure.kind, failure.retryable) == (FailureKind[kind], retryable)


async def test_what_was_bought_is_not_bought_again() -> None:
    failure = await failure_of(AnthropicMessages(), STARTED, anthropic_error("overloaded_error"))
    assert (failure.kind, failure.retryable) == (FailureKind.UNAVAILABLE, False)


def test_a_class_of_service_that_is_no_name_is_not_reported() -> None:
    completion = StreamedCompletion()
    completion.serve("flex")
    for tier in ("\0", "\ud83d", "a\nb", None, 5, ["flex"]):
        completion.serve(tier)
    assert completion.service_class == "flex"


LARGE = b"<p>overloaded</p>" * 100_000


@asynccontextmanager
async def replying(status: int, media_type: str, body: bytes) -> AsyncIterator[ArrivingReply]:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, content_type=media_type, body=body)

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0]
    with acting_as(make_identity("acme")):
        request = HttpRequest("GET", f"http://{host}:{port}/")
        guard = NetworkGuard(allow_private=True)
        async with HttpClient(guard) as client, client.opened(request) as reply:
            yield reply
    await runner.cleanup()


async def test_an_error_with_a_large_page_is_still_that_error() -> None:
    async with replying(503, "text/html", LARGE) as reply:
        failure = status_failure(await reply.whole(100))
    assert failure is not None
    assert (failure.kind, failure.retryable) == (FailureKind.UNAVAILABLE, True)
    assert "overloaded" in failure.message


async def test_a_success_that_is_too_large_is_none() -> None:
    async with replying(200, "text/html", LARGE) as reply:
        with pytest.raises(CallFailed) as failed:
            await reply.whole(100)
    assert failed.value.failure.kind is FailureKind.OUTPUT_TOO_LARGE


@pytest.mark.parametrize(
    "body",
    [
        b'data: {"error": {"message": "slow down"}}\n\n',
        b'data: {"choices": [{"delta": {"content": "slow down"}, "finish_reason": "stop"}]}\n\n',
    ],
)
async def test_an_error_that_calls_itself_a_stream_is_no_answer(body: bytes) -> None:
    completion = StreamedCompletion()
    async with replying(429, "text/event-stream", body) as reply:
        with pytest.raises(CallFailed, match=r"status 429: .*slow down") as failed:
            await read_completion(reply, OpenAiChat(), completion, 65_536)
    assert failed.value.failure.kind is FailureKind.RATE_LIMITED
    assert not completion.texts
