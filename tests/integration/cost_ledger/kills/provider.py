"""The world outside: a provider with a log of its own, where callers report how far they are.

The log is the ground truth that the ledger is judged against: what is in it was billed.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from podium_kit.embedded.ports import free_port

# Reported by the caller right after each step of a call.
POINTS = ("reserved", "called", "captured")
Kill = Callable[[], Awaitable[None]]


@dataclass
class Provider:
    """Answers calls once per key and does what is planned at the points callers reach."""

    port: int = field(default_factory=free_port)
    billed: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    planned: dict[tuple[str, int], Kill] = field(default_factory=dict)

    def at(self, point: str, nth: int, kill: Kill) -> None:
        self.planned[point, nth] = kill

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_post("/calls/{key}", self._call)
        app.router.add_post("/points/{point}", self._point)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port).start()
        yield f"http://127.0.0.1:{self.port}"
        await runner.cleanup()

    async def _call(self, request: web.Request) -> web.Response:
        key = request.match_info["key"]
        # Providers with idempotency keys answer a repeated one without billing it again.
        if key not in self.billed:
            self.billed[key] += 1
        return web.json_response({"calls": 1})

    async def _point(self, request: web.Request) -> web.Response:
        point = request.match_info["point"]
        self.reached[point] += 1
        if kill := self.planned.pop((point, self.reached[point]), None):
            await kill()
        return web.Response()
