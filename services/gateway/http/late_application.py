"""An application that its first request builds, so that the gateway starts without its library."""

import asyncio
from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Receive, Scope, Send


class LateApplication:
    """An ASGI application; requests that come while it is built wait for it."""

    def __init__(self, build: Callable[[], Awaitable[ASGIApp]]) -> None:
        self._build = build
        self._built: ASGIApp | None = None
        self._building = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._building:
            if self._built is None:
                self._built = await self._build()
        await self._built(scope, receive, send)
