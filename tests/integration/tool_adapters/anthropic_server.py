import asyncio
import json
from collections.abc import Sequence
from typing import Any, Self

from aiohttp import web


class AnthropicServer:
    def __init__(self, events: Sequence[dict[str, Any]], ending: str = "end") -> None:
        self.requests: list[dict[str, Any]] = []
        self._events = events
        self._ending = ending
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/messages", self._messages)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        self.base_url = ""

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.base_url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(await request.json())
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for event in self._events:
            data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
            await response.write(data.encode())
        if self._ending == "hang":
            await asyncio.Event().wait()
        if self._ending == "cut" and request.transport is not None:
            # Not at once: what was written must leave first.
            await asyncio.sleep(0.05)
            request.transport.abort()
        return response


def started(**usage: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {"id": "msg_1", "usage": usage}}


def wrote(text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}


def stopped(reason: str = "end_turn", **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}
