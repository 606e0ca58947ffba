import asyncio
from collections.abc import Awaitable
from typing import TypeVar

R = TypeVar("R")


async def shielded(work: Awaitable[R]) -> tuple[R, bool]:
    """Awaits work that must not be left half done; returns its result and whether a cancel came
    meanwhile."""
    running, cancelled = asyncio.ensure_future(work), False
    while not running.done():
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            cancelled = True
    return running.result(), cancelled
