from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from callers import make_identity
from podium_kit.failures import FailureKind
from podium_kit.rpc.identity import acting_as
from tool_adapters.adapter import CallFailed
from tool_adapters.http.client import ArrivingReply, HttpClient, HttpRequest, status_failure
from tool_adapters.llm.apis import OpenAiChat
from tool_adapters.llm.completion import StreamedCompletion
from tool_adapters.llm.stream import read_completion
from tool_adapters.network_guard import NetworkGuard

BYTES_MAX = 100
LARGE = b"<p>overloaded</p>" * 100_000


@asynccontextmanager
async def arriving(status: int, media_type: str, body: bytes) -> AsyncIterator[ArrivingReply]:
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
    async with arriving(503, "text/html", LARGE) as reply:
        failure = status_failure(await reply.whole(BYTES_MAX))
    assert failure is not None
    assert (failure.kind, failure.retryable) == (FailureKind.UNAVAILABLE, True)
    assert "overloaded" in failure.message


async def test_a_success_that_is_too_large_is_none() -> None:
    async with arriving(200, "text/html", LARGE) as reply:
        with pytest.raises(CallFailed) as failed:
            await reply.whole(BYTES_MAX)
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
    async with arriving(429, "text/event-stream", body) as reply:
        with pytest.raises(CallFailed, match=r"status 429: .*slow down") as failed:
            await read_completion(reply, OpenAiChat(), completion, 65_536)
    assert failed.value.failure.kind is FailureKind.RATE_LIMITED
    assert not completion.texts
