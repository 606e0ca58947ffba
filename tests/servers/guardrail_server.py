"""A guardrail of a tenant's: a server that flags texts with a word, and can misbehave."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

WORD = "tulip"


@dataclass
class GuardrailServer:
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    authorization: list[str] = field(default_factory=list)
    # What it answers in place of a decision.
    reply: Any = None
    status: int = 200
    stalls: bool = False

    async def answer(self, request: web.Request) -> web.Response:
        question = await request.json()
        self.asked.append(question)
        self.authorization.append(request.headers.get("authorization", ""))
        if self.stalls:
            await asyncio.Event().wait()
        if self.reply is not None or self.status != 200:
            return web.json_response(self.reply, status=self.status)
        texts = question["texts"]
        return web.json_response(
            {
                "flagged": any(WORD in text for text in texts),
                "reason": "it names a flower",
                "texts": [text.replace(WORD, "#") for text in texts],
            }
        )


@asynccontextmanager
async def running_guardrail_server() -> AsyncIterator[GuardrailServer]:
    server = GuardrailServer()
    app = web.Application()
    app.router.add_post("/check", server.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/check"
    try:
        yield server
    finally:
        await runner.cleanup()
