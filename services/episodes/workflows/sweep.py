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
    """Goes through them a batch at a time; starting a started workflow changes nothing."""

    def __init__(self, episodes: EpisodeStore, starter: WorkflowStarter) -> None:
        self._episodes = episodes
        self._starter = starter
        self._after_id = ""

    async def sweep(self) -> bool:
        """Starts what is overdue of the next batch; whether there may be more.

        What was started stays overdue until its first step: a model may take minutes for it.
        """
        overdue = await self._episodes.unstarted(self._after_id, OLDER_THAN_S, BATCH)
        for stored in overdue:
            await self._starter.start(stored.new)
        more = len(overdue) == BATCH
        self._after_id = overdue[-1].new.episode_id if more else ""
        return more
