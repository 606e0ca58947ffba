"""Hands an episode of the queue over to a workflow, which continues from its step log.

The mark, the workflow and the end of the row follow each other: a worker that dies in between
leaves a marked row, and the next holder of the lease completes it. Every step is idempotent.
"""

from dataclasses import dataclass

from episodes.execution.outcomes import Finished
from episodes.models import NewEpisode
from episodes.queue.store import EpisodeQueue
from episodes.workflows.payloads import TurnResult
from episodes.workflows.starter import WorkflowStarter


@dataclass(frozen=True)
class Handover:
    queue: EpisodeQueue
    starter: WorkflowStarter

    async def hand_over(self, new: NewEpisode, ending: Finished | None = None) -> None:
        """Starts the workflow, which only ends the episode where an ending is given.

        An episode that is not in the queue has a workflow, or has ended, and is not touched.
        Raises TemporalUnavailable; a worker tries again then.
        """
        marked = await self.queue.mark(new.episode_id, TurnResult.of(ending) if ending else None)
        if marked is None:
            return
        await self.starter.resume(new, new.time_limit_s - marked.ran_s, marked.ending)
        if not await self.queue.remove(new.episode_id):
            await self.starter.cancel(new.episode_id)
            await self.queue.drop(new.episode_id)
