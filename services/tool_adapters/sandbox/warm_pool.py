"""Sandboxes started ahead of their use, each for one job only, so that a call need not wait.

Nothing is shared or used again: a warm sandbox is a fresh one that was started early.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from tool_adapters.sandbox.limits import Sizes
from tool_adapters.sandbox.sandbox import SandboxBroken
from tool_adapters.sandbox.session import Session

log = logging.getLogger(__name__)

Prepare = Callable[[], Awaitable[None]]
Start = Callable[[Sizes], Awaitable[Session]]


class WarmPool:
    """Keeps `count` sandboxes of one size ready; `prepare` comes before the first of them."""

    def __init__(self, prepare: Prepare, start: Start, count: int, sizes: Sizes) -> None:
        self._prepare = prepare
        self._start = start
        self._count = count
        self._sizes = sizes
        self._ready: list[Session] = []
        self._filling: asyncio.Task[None] | None = None

    async def take(self, sizes: Sizes) -> Session:
        """The caller ends the session. Raises SandboxBroken."""
        try:
            while self._ready and sizes == self._sizes:
                session = self._ready.pop()
                if session.alive:
                    return session
                await session.end()
            return await self._start(sizes)
        finally:
            self.fill()

    def fill(self) -> None:
        if self._count and (self._filling is None or self._filling.done()):
            self._filling = asyncio.create_task(self._filled())

    async def close(self) -> None:
        self._count = 0
        if self._filling:
            self._filling.cancel()
            await asyncio.wait([self._filling])
        while self._ready:
            await self._ready.pop().end()

    async def _filled(self) -> None:
        try:
            await self._prepare()
            while len(self._ready) < self._count:
                self._ready.append(await self._start(self._sizes))
        except (SandboxBroken, OSError) as error:
            # The next call starts its own and says what is wrong.
            log.warning("no sandbox could be started ahead: %s", error)
