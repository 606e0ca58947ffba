"""Takes the turns of episodes that this worker leases from the queue, and ends them.

A workflow continues what a lease does not suit: an episode that waits for a person, a child, the
caller's results or a verifier's calls, that cannot be ended now, or that is long. Turns are raced
against the time limit and a cancel, as in the workflow.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from episodes.execution.outcomes import OUT_OF_TIME, FinishInput, TurnResult
from episodes.execution.turn import TurnRunner
from episodes.models import StopReason
from episodes.queue.handover import Handover
from episodes.queue.store import QueuedEpisode, Taken, WorkQueue
from episodes.shielding import shielded
from episodes.step_log.running_episode import RunningEpisode
from episodes.workflows.episode_workflow import turn_input
from episodes.workflows.payloads import EpisodeInput
from podium_kit.rpc.errors import DomainError, InternalError

log = logging.getLogger(__name__)

CANCELLED = TurnResult(stop=StopReason.CANCELLED)


@dataclass(frozen=True)
class QueuedEpisodes:
    """Works on episodes of the queue. Those older than `long_after_s`, or of more turns than
    `long_turns`, are long."""

    turns: TurnRunner
    handover: Handover
    leases: WorkQueue[QueuedEpisode]
    drains: Callable[[], bool]
    long_after_s: float
    long_turns: int

    async def do(self, taken: Taken[QueuedEpisode]) -> None:
        try:
            await self._do(taken)
        finally:
            # Whoever goes on, it may be another worker, writes what this one's copy lacks.
            self.turns.logs.forget(taken.id)

    async def _do(self, taken: Taken[QueuedEpisode]) -> None:
        episode = self.turns.episodes.keep(taken.item.stored)
        if taken.item.handed_over:
            await self._hand_over(episode)
            return
        result = await self._until_end(episode, taken)
        if result.finished:
            await self._ended(episode)
        elif result is CANCELLED or result is OUT_OF_TIME:
            await self._end(episode, result)
        elif self.drains() and not (result.stop or result.waits):
            await self.leases.give_back([taken.id], 0.0)
        else:
            await self._hand_over(episode, result if result.stop else None)

    async def fail(self, taken: Taken[QueuedEpisode], message: str) -> None:
        """Ends what would meet the same at every attempt."""
        episode = self.turns.episodes.keep(taken.item.stored)
        failed = TurnResult(stop=StopReason.FAILED, message=message)
        await self._end(episode, failed if taken.age_s < taken.item.time_limit_s else OUT_OF_TIME)

    def patience_s(self, taken: Taken[QueuedEpisode]) -> float:
        """No outage ends an episode: its time limit does."""
        return taken.item.time_limit_s

    async def _until_end(self, episode: RunningEpisode, taken: Taken[QueuedEpisode]) -> TurnResult:
        """How the episode ended, or what it waits for."""
        left_s = taken.item.time_limit_s - taken.age_s
        if taken.cancelled.is_set() or left_s <= 0:
            return CANCELLED if taken.cancelled.is_set() else OUT_OF_TIME
        new = episode.stored.new
        first = turn_input(EpisodeInput(new.episode_id, new.turn_limit, 0), 1)

        def leaves(turn: int) -> bool:
            is_long = taken.age_s > self.long_after_s or turn >= self.long_turns
            return is_long or self.drains()

        turns = asyncio.create_task(self.turns.take(first, again=taken.attempts > 1, leaves=leaves))
        cancel = asyncio.create_task(taken.cancelled.wait())
        try:
            await asyncio.wait([turns, cancel], timeout=left_s, return_when="FIRST_COMPLETED")
            in_time = turns.done()
        finally:
            cancel.cancel()
            turns.cancel()
            # A finish that has begun is not interrupted.
            await asyncio.wait([turns])
        if in_time or (not turns.cancelled() and not turns.exception() and turns.result().finished):
            return _result(turns)
        return CANCELLED if taken.cancelled.is_set() else OUT_OF_TIME

    async def _end(self, episode: RunningEpisode, ending: TurnResult) -> None:
        """Settles and publishes; where that fails, a workflow does it, as long as it takes."""
        finish = FinishInput.of(episode.id, ending)
        try:
            await shielded(self.turns.finisher.finish(finish))
        except Exception as error:  # noqa: BLE001 whatever it is, it is tried again
            log.warning("episode %s is finished later: %r", episode.id, error)
            await self._hand_over(episode, ending)
        else:
            await self._ended(episode)

    async def _hand_over(self, episode: RunningEpisode, ending: TurnResult | None = None) -> None:
        """Where that fails, whoever takes the episode when its lease ends does it."""
        try:
            await self.handover.hand_over(episode.stored.new, ending)
        except DomainError as error:
            log.warning("episode %s is handed over later: %s", episode.id, error.message)

    async def _ended(self, episode: RunningEpisode) -> None:
        """One of a group stays in the queue until the group's end is owed, too."""
        if episode.stored.new.membership.size > 1:
            await self.handover.queue.drop(episode.id)


def _result(turns: asyncio.Task[TurnResult]) -> TurnResult:
    """Raises DomainError: a fault of ours is one that is met again before it ends an episode."""
    try:
        return turns.result()
    except DomainError:
        raise
    except Exception as error:
        log.exception("internal error in the turns of an episode")
        raise InternalError from error
