"""What the adapters do by themselves from time to time; a failed round is tried again."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from podium_kit.rpc.errors import DomainError
from tool_adapters.calls.facts import Facts, FactsBook

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Chore:
    """Something to do every so many seconds."""

    name: str
    interval_s: float
    do: Callable[[], Awaitable[None]]


@asynccontextmanager
async def running(chores: Sequence[Chore]) -> AsyncIterator[None]:
    """Does the chores for as long as the context lasts."""
    tasks = [asyncio.create_task(_repeat(chore)) for chore in chores]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _repeat(chore: Chore) -> None:
    while True:
        await asyncio.sleep(chore.interval_s)
        try:
            await chore.do()
        except DomainError as error:
            log.warning("%s failed: %s", chore.name, error.message)
        except Exception:  # BLE001: one bad round must not end all later ones
            log.exception("%s failed", chore.name)


async def report_facts(
    facts: FactsBook, send: Callable[[str, list[Facts]], Awaitable[None]]
) -> None:
    """Sends what changed. What cannot be sent now is sent again after the next call."""
    for tenant, changed in facts.take_changes().items():
        await send(tenant, changed)
