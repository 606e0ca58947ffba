"""What the registry does by itself from time to time; a failed round is tried again."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from podium_kit.rpc.errors import DomainError

log = logging.getLogger(__name__)


@asynccontextmanager
async def repeated(
    name: str, interval_s: float, do: Callable[[], Awaitable[None]]
) -> AsyncIterator[None]:
    """Does it at once and then every so many seconds, for as long as the context lasts."""
    task = asyncio.create_task(_repeat(name, interval_s, do))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _repeat(name: str, interval_s: float, do: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await do()
        except DomainError as error:
            log.warning("%s failed: %s", name, error.message)
        await asyncio.sleep(interval_s)
