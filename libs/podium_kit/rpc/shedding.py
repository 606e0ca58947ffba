"""Calls beyond what a server keeps open are turned away at once, before they cost anything.

A server that takes every call answers none in time once it has too many: the queue grows, clients
give up and ask again. gRPC's own limit (maximum_concurrent_rpcs) counts watches and probes with
the calls, and answers in words that no client can tell from a message that is too large.
"""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from podium_kit.rpc.errors import Unavailable
from podium_kit.rpc.status import status_of
from podium_kit.telemetry.handlers import AroundCalls, Context, Handler

RETRY_AFTER_S = 1.0


class Overloaded(Unavailable):
    def __init__(self) -> None:
        super().__init__(
            "a part of the platform has too much to do; send the same request again",
            retry_after_s=RETRY_AFTER_S,
        )


class SheddingInterceptor(AroundCalls):
    """Keeps at most so many calls open, and as many streams: those who watch do not shut out work.

    Health and reflection are always answered: an overloaded server is not a dead one.
    """

    def __init__(self, open_max: int) -> None:
        super().__init__()
        self._open_max = open_max
        self._open: Counter[bool] = Counter()
        self._streams: set[str] = set()

    def _wrap(self, method: str, handler: Handler) -> Handler:
        if handler.unary_stream:
            self._streams.add(method)
        return super()._wrap(method, handler)

    @asynccontextmanager
    async def around(self, method: str, context: Context, request: Any) -> AsyncIterator[None]:
        streams = method in self._streams
        if self._open[streams] >= self._open_max:
            await context.abort(*status_of(Overloaded()))
        self._open[streams] += 1
        try:
            yield
        finally:
            self._open[streams] -= 1
