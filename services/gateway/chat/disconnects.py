import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from starlette.requests import Request

T = TypeVar("T")


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T | None:
    """The result, or None when the client went away first; its body must have been read."""
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, leaving):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait({task})


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
