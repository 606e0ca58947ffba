"""Starts workflows of episodes that were accepted but never started.

The server stores an episode first and starts its workflow second; a crash in
between must not leave the episode pending for ever.
"""

import asyncio
import logging

from episodes.store import EpisodeStore
from episodes.store_locks import Leadership
from episodes.workflows.starter import WorkflowStarter

log = logging.getLogger(__name__)

INTERVAL_S = 5.0
OLDER_THAN_S = 10.0
BATCH = 200


class StarterSweep:
    """Looks every few seconds; starting a started workflow changes nothing."""

    def __init__(
        self, episodes: EpisodeStore, starter: WorkflowStarter, leadership: Leadership
    ) -> None:
        self._episodes = episodes
        self._starter = starter
        self._leadership = leadership

    async def run(self) -> None:
        """Sweeps until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            try:
                if await self._leadership.held():
                    await self.sweep()
            except Exception as error:  # noqa: BLE001  the loop outlives database and Temporal
                log.warning("sweep failed, will retry: %s", type(error).__name__)

    async def sweep(self) -> int:
        """Starts what is overdue; how many episodes that were."""
        overdue = await self._episodes.unstarted(OLDER_THAN_S, BATCH)
        for stored in overdue:
            await self._starter.start(stored.new)
        return len(overdue)
