"""Server-sent events kept alive through silence and ended by a drain."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.background import BackgroundTask
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

# A comment, which every client of server-sent events skips.
PING = b": ping\n\n"


def data(value: object) -> bytes:
    """One server-sent event; JSON has no line breaks of its own."""
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


class _EventStream(StreamingResponse):
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except asyncio.CancelledError:
            # Starlette runs it only after an end, or after a client that went away.
            if self.background is not None:
                await asyncio.shield(self.background())
            raise


def sse_response(
    events: AsyncIterator[bytes],
    headers: dict[str, str] | None = None,
    on_end: BackgroundTask | None = None,
) -> StreamingResponse:
    """`on_end` runs after the last event, and as soon as the client goes away or the request is
    cancelled, as by the end of a drain.
    """
    # Proxies that buffer would turn a live stream into one late answer.
    unbuffered = {"cache-control": "no-store", "x-accel-buffering": "no", **(headers or {})}
    return _EventStream(
        events, headers=unbuffered, media_type="text/event-stream", background=on_end
    )


async def kept_alive(
    source: AsyncIterator[bytes], silence_s: float, stop: asyncio.Event | None = None
) -> AsyncIterator[bytes]:
    """The source with a ping after every silence; ends early when `stop` is set."""
    stopped = asyncio.create_task((stop or asyncio.Event()).wait())
    upcoming = asyncio.create_task(_next(source))
    try:
        while not stopped.done():
            await _any_of(upcoming, stopped, silence_s)
            if not upcoming.done():
                yield PING
                continue
            if (item := upcoming.result()) is None:
                return
            yield item
            upcoming = asyncio.create_task(_next(source))
    finally:
        upcoming.cancel()
        stopped.cancel()


async def _next(source: AsyncIterator[bytes]) -> bytes | None:
    return await anext(source, None)


async def _any_of(one: asyncio.Task[Any], other: asyncio.Task[Any], timeout_s: float) -> None:
    await asyncio.wait({one, other}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
