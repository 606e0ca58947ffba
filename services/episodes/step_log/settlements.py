"""Writes costs and wakes watchers in batches, off the path of the turns.

A cost that is lost before it is written is read from the ledger again by the next turn or the end
of the episode, so no turn waits for these writes.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from episodes.models import Step
from episodes.step_log.store import StepStore
from podium_kit.money import Money

Costs = list[tuple[Step, Money | None]]

FLUSH_INTERVAL_S = 0.02
# A round that waits longer than a background task may take would pass for one that hangs.
IDLE_MAX_S = 10.0


class Settlements:
    """A queue of costs and of episodes to announce, flushed every 20 ms."""

    def __init__(self, store: StepStore) -> None:
        self._store = store
        self._costs: Costs = []
        self._announced: dict[str, None] = {}
        self._ready = asyncio.Event()
        self._writing = asyncio.Lock()

    def add(self, step: Step, cost: Money | None) -> None:
        self._costs.append((step, cost))
        self.notify(step.episode_id)

    def notify(self, episode_id: str) -> None:
        self._announced[episode_id] = None
        self._ready.set()

    async def flush_next(self) -> None:
        """Waits for something to write, then a little for more of it."""
        try:
            async with asyncio.timeout(IDLE_MAX_S):
                await self._ready.wait()
        except TimeoutError:
            return
        await asyncio.sleep(FLUSH_INTERVAL_S)
        await self.flush()

    async def flush(self) -> None:
        """Writes the queue after any write under way; rows that cannot be written stay queued."""
        async with self._writing:
            if self._costs or self._announced:
                await self._write()

    @asynccontextmanager
    async def taken(self, episode_id: str) -> AsyncIterator[Costs]:
        """Yields the costs queued for an episode to a caller that writes and announces them; they
        are queued again where that fails."""
        async with self._writing:  # they may be among those that are being written
            costs = [each for each in self._costs if each[0].episode_id == episode_id]
            self._costs = [each for each in self._costs if each[0].episode_id != episode_id]
            self._announced.pop(episode_id, None)
        if not self._costs and not self._announced:
            self._ready.clear()
        try:
            yield costs
        except BaseException:
            self._costs = costs + self._costs
            self.notify(episode_id)
            raise

    async def _write(self) -> None:
        self._ready.clear()
        costs, self._costs = self._costs, []
        announced, self._announced = self._announced, {}
        try:
            await self._store.settle(costs, list(announced))
        except BaseException:
            self._costs = costs + self._costs
            self._announced = announced | self._announced
            self._ready.set()
            raise
