"""Runs an episode until it ends, waits, or another caller has to continue it.

The worker that leases an episode and the activity of its workflow both run it here: this alone
races turns against the deadline and a cancel, decides how an episode ends, and finishes it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from episodes.execution.finish import EpisodeFinisher
from episodes.execution.outcomes import CANCELLED, OUT_OF_TIME, Finished, Outcome, TurnInput
from episodes.execution.turn import TurnRunner
from episodes.execution.verify import AnswerJudge
from episodes.models import StopReason
from episodes.shielding import shielded
from episodes.step_log.running_episode import RunningEpisode
from podium_kit import telemetry
from podium_kit.rpc.errors import DomainError, InternalError
from podium_kit.rpc.identity import acting_as

log = logging.getLogger(__name__)

# A cancel this close to the deadline is the deadline's: two clocks measure it.
CLOCK_TOLERANCE_S = 1.0


@dataclass(frozen=True)
class ExecutionLimits:
    """The bounds of a run: seconds to the deadline, a cancel, and reasons to release the episode.

    `release_reason` is asked after each turn; "" continues.
    """

    remaining_s: float
    cancelled: asyncio.Event
    release_reason: Callable[[int], str]


@dataclass(frozen=True)
class EpisodeExecutor:
    turns: TurnRunner
    judge: AnswerJudge
    finisher: EpisodeFinisher

    async def run(self, run: TurnInput, limits: ExecutionLimits, *, is_retry: bool) -> Outcome:
        """Runs an episode. Raises DomainError where an attempt fails; nothing is lost then."""
        episode = await self.turns.episodes.get(run.episode_id)
        with acting_as(episode.identity), telemetry.episode_context(episode.id):
            if is_retry and (ended := await self.turns.episodes.ending(episode.id)):
                # A workflow may have been started while a worker ended its episode, whose group
                # may still lack its end.
                return await self._settled(episode, Finished(ended.stop_reason), None)
            outcome = await self._race(self._judged(episode, run, limits, is_retry), limits)
            if not isinstance(outcome, Finished) or not run.finishes:
                return outcome
            if await self._awaits_judgement(episode, outcome):
                return outcome
            return await self._settled(episode, outcome, outcome.turn or None)

    async def end(self, episode_id: str, end: Finished) -> Finished:
        return await self._settled(await self.turns.episodes.get(episode_id), end, None)

    async def _judged(
        self, episode: RunningEpisode, run: TurnInput, limits: ExecutionLimits, is_retry: bool
    ) -> Outcome:
        """Takes the turns, and judges an answer whose check makes no calls."""
        outcome = await self.turns.run(
            episode, run, is_retry=is_retry, release_reason=limits.release_reason
        )
        answered = isinstance(outcome, Finished) and outcome.stop_reason is StopReason.ANSWERED
        if answered and run.finishes:
            try:
                await self.judge.judge_without_calls(episode, outcome.turn)
            except Exception as error:  # noqa: BLE001 whatever it is, the workflow tries it again
                log.warning("episode %s is judged later: %r", episode.id, error)
        return outcome

    async def _race(self, work: Coroutine[Any, Any, Outcome], limits: ExecutionLimits) -> Outcome:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limits.remaining_s
        turns = asyncio.create_task(work)
        cancel = asyncio.create_task(limits.cancelled.wait())
        try:
            if limits.remaining_s > 0 and not limits.cancelled.is_set():
                await asyncio.wait(
                    [turns, cancel],
                    timeout=limits.remaining_s,
                    return_when=asyncio.FIRST_COMPLETED,
                )
            in_time = turns.done()
        finally:
            cancel.cancel()
            turns.cancel()
            await asyncio.wait([turns])
        if in_time:
            return _result(turns)
        in_time = loop.time() < deadline - CLOCK_TOLERANCE_S
        return CANCELLED if limits.cancelled.is_set() and in_time else OUT_OF_TIME

    async def _awaits_judgement(self, episode: RunningEpisode, end: Finished) -> bool:
        """Returns whether the check of an answer makes calls, which only a workflow waits for."""
        if end.stop_reason is not StopReason.ANSWERED or not episode.spec.HasField("check"):
            return False
        return (await self.turns.logs.open(episode.id, end.turn)).judgement is None

    async def _settled(
        self, episode: RunningEpisode, end: Finished, last_turn: int | None
    ) -> Finished:
        """Stores the end; where that fails, a workflow stores it later."""
        try:
            await shielded(self.finisher.finish(episode.id, end, last_turn=last_turn))
        except Exception as error:  # noqa: BLE001 whatever it is, the workflow tries it again
            log.warning("episode %s is finished later: %r", episode.id, error)
            return end
        return replace(end, settled=True)


def _result(turns: asyncio.Task[Outcome]) -> Outcome:
    """Returns the outcome of the turns. Raises DomainError: a fault of ours is retried, too."""
    try:
        return turns.result()
    except DomainError:
        raise
    except Exception as error:
        log.exception("internal error in the turns of an episode")
        raise InternalError from error
