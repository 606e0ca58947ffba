"""Tools that answered the tenant's earlier tasks: similar tasks want the same tools.

Past episodes whose policy consented to training are read in the background, as the caller. No
resolution waits for them, and without them tools are ranked by what they say of themselves.
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cachetools import LRUCache

from podium_kit.rpc.errors import DomainError, message_of

log = logging.getLogger(__name__)

TENANTS_KEPT = 1_000


@dataclass(frozen=True)
class Answered:
    """A past task; its tools are those that gave something, none where the answer was wrong."""

    task: str
    tools: frozenset[str]


class AnsweredEpisodes(Protocol):
    async def answered(self, known: Mapping[str, Answered]) -> dict[str, Answered]:
        """The newest, by episode. Those known are not read again, and some may come later.

        Raises DomainError.
        """


@dataclass
class _Known:
    episodes: Mapping[str, Answered] = field(default_factory=dict)
    until: float = 0.0
    reading: asyncio.Task[None] | None = None


class Experience:
    def __init__(self, source: AnsweredEpisodes, lifetime_s: float) -> None:
        self._source = source
        self._lifetime_s = lifetime_s
        self._tenants: LRUCache[str, _Known] = LRUCache(TENANTS_KEPT)

    def of(self, tenant: str) -> Sequence[Answered]:
        """Returns the present knowledge, and refreshes it in the background when it is old."""
        known = self._tenants.get(tenant)
        if known is None:
            known = self._tenants[tenant] = _Known()
        if known.until <= time.monotonic() and (known.reading is None or known.reading.done()):
            known.reading = asyncio.create_task(self._read(known))
        return tuple(known.episodes.values())

    async def _read(self, known: _Known) -> None:
        try:
            known.episodes = await self._source.answered(known.episodes)
        except DomainError as error:
            log.info("tools are ranked without past tasks: %s", message_of(error))
        known.until = time.monotonic() + self._lifetime_s
