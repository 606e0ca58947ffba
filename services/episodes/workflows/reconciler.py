"""Ends episodes whose workflow Temporal no longer runs.

A workflow that was terminated, or that Temporal lost, ends nothing: its episode would count as
running without end. A queued episode has a worker, or is handed over to a workflow before it
leaves the queue.
"""

import logging

from temporalio.client import WorkflowExecutionStatus

from episodes.models import StoredEpisode
from episodes.store import EpisodeStore
from episodes.workflows.starter import WorkflowStarter

log = logging.getLogger(__name__)

BATCH = 200


class WorkflowReconciler:
    def __init__(self, episodes: EpisodeStore, starter: WorkflowStarter) -> None:
        self._episodes = episodes
        self._starter = starter
        self._after_id = ""

    async def reconcile(self) -> None:
        batch = await self._episodes.unfinished(self._after_id, BATCH)
        for stored in batch:
            await self._reconcile(stored)
        self._after_id = batch[-1].new.episode_id if len(batch) == BATCH else ""

    async def _reconcile(self, stored: StoredEpisode) -> None:
        episode_id = stored.new.episode_id
        status = await self._starter.status(episode_id)
        if status is WorkflowExecutionStatus.RUNNING:
            return
        # A workflow closes after its episode has ended, which may have been a moment ago.
        if await self._episodes.has_ended(episode_id):
            return
        reason = f"its workflow was {status.name.lower()}" if status else "its workflow is gone"
        log.warning("episode %s is ended: %s in Temporal", episode_id, reason)
        await self._starter.end(stored.new, f"{reason} in Temporal before the episode had ended")
