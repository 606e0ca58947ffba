"""Episodes that this worker leases from the queue.

A workflow continues an episode that does not suit a lease: one that waits for a person, a child,
the caller's results or a verifier's calls, that cannot be ended now, or that is long.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from episodes.execution.executor import EpisodeExecutor, ExecutionLimits
from episodes.execution.outcomes import OUT_OF_TIME, Finished, Released, first_turn
from episodes.models import NewEpisode, StopReason
from episodes.queue.store import EpisodeQueue, LeasedRow, QueuedEpisode, WorkQueue
from episodes.workflows.payloads import TurnResult
from episodes.workflows.starter import WorkflowStarter
from podium_kit.rpc.errors import DomainError

log = logging.getLogger(__name__)

DRAIN, LONG = "drain", "long"


@dataclass(frozen=True)
class Handover:
    """Hands an episode of the queue over to a workflow, which continues from its step log.

    The mark, the workflow and the end of the row follow each other: a worker that dies in between
    leaves a marked row, and the next holder of the lease completes it. Every step is idempotent.
    """

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


@dataclass(frozen=True)
class LeasedEpisodes:
    """Runs leased episodes. Those older than `long_after_s`, or of more turns than `long_turns`,
    are long."""

    executor: EpisodeExecutor
    handover: Handover
    leases: WorkQueue[QueuedEpisode]
    drains: Callable[[], bool]
    long_after_s: float
    long_turns: int

    async def do(self, leased: LeasedRow[QueuedEpisode]) -> None:
        try:
            await self._run(leased)
        finally:
            # The next worker may write steps that this one's copy lacks.
            self.executor.turns.logs.forget(leased.id)

    async def fail(self, leased: LeasedRow[QueuedEpisode], message: str) -> None:
        new = self.executor.turns.episodes.cache(leased.item.stored).stored.new
        failed = Finished(StopReason.FAILED, message)
        end = failed if leased.age_s < leased.item.time_limit_s else OUT_OF_TIME
        await self._continue(new, await self.executor.end(leased.id, end))

    def max_age_s(self, leased: LeasedRow[QueuedEpisode]) -> float:
        """An outage ends no episode: its time limit does."""
        return leased.item.time_limit_s

    async def _run(self, leased: LeasedRow[QueuedEpisode]) -> None:
        new = self.executor.turns.episodes.cache(leased.item.stored).stored.new
        if leased.item.handed_over:
            await self._hand_over(new)
            return

        def release_reason(turn: int) -> str:
            if self.drains():
                return DRAIN
            return LONG if leased.age_s > self.long_after_s or turn >= self.long_turns else ""

        limits = ExecutionLimits(
            leased.item.time_limit_s - leased.age_s, leased.cancelled, release_reason
        )
        run = first_turn(new.episode_id, new.turn_limit)
        outcome = await self.executor.run(run, limits, is_retry=leased.attempts > 1)
        if isinstance(outcome, Finished):
            await self._continue(new, outcome)
        elif isinstance(outcome, Released) and outcome.reason == DRAIN:
            await self.leases.release([leased.id], 0.0)
        else:
            await self._hand_over(new)

    async def _continue(self, new: NewEpisode, end: Finished) -> None:
        """Has a workflow store an end that could not be stored, for as long as it takes."""
        if not end.settled:
            await self._hand_over(new, end)
        elif new.membership.size > 1:
            # One of a group stays in the queue until the group's end is in the outbox, too.
            await self.handover.queue.drop(new.episode_id)

    async def _hand_over(self, new: NewEpisode, end: Finished | None = None) -> None:
        """Starts the workflow; where that fails, the next holder of the lease does."""
        try:
            await self.handover.hand_over(new, end)
        except DomainError as error:
            log.warning("episode %s is handed over later: %s", new.episode_id, error.message)
