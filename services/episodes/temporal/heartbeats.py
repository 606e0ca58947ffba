"""Heartbeats of a running activity: how it stays alive and how a cancel reaches it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio import activity

HEARTBEAT_INTERVAL_S = 0.5


@asynccontextmanager
async def heartbeats() -> AsyncIterator[None]:
    """Heartbeats while the block runs. A cancel arrives as CancelledError in the block."""
    beating = asyncio.create_task(_beat())
    try:
        yield
    finally:
        beating.cancel()


async def _beat() -> None:
    while True:
        await asyncio.sleep(HEARTBEAT_INTERVAL_S)
        activity.heartbeat()
