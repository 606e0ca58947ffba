"""Starts workflows of episodes that were accepted but never started.

Servers of before the queue (ADR 52) stored an episode first and started its workflow second; a
crash in between must not leave the episode pending for ever. What is in the queue needs none.
"""

from episodes.store import EpisodeStore
from episodes.workflows.starter import WorkflowStarter

INTERVAL_S = 5.0
OLDER_THAN_S = 10.0
BATCH = 200


class StarterSweep:
    """Starting a started workflow changes nothing."""

    def __init__(self, episodes: EpisodeStore, starter: WorkflowStarter) -> None:
        self._episodes = episodes
        self._starter = starter

    async def sweep(self) -> bool:
        """Starts what is overdue; whether there may be more."""
        overdue = await self._episodes.unstarted(OLDER_THAN_S, BATCH)
        for stored in overdue:
            await self._starter.start(stored.new)
        return len(overdue) == BATCH
