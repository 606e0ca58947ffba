"""Activities of the episode's workflow, and the errors that Temporal retries.

Slow is not dead: a part of the platform that is away or stalls is tried again until the episode's
own deadline. A fault of ours repeats at every attempt, so it ends the activity after many of them.
"""

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta

from temporalio import activity
from temporalio.exceptions import ApplicationError

from episodes.errors import FAULTS_MAX, TRANSIENT, faults_of
from episodes.execution.executor import EpisodeExecutor, ExecutionLimits
from episodes.execution.outcomes import Outcome, TurnInput
from episodes.step_log.log import StepLogs
from episodes.workflows.episode_workflow import FINISH_EPISODE, JUDGE_ANSWER, TAKE_TURN
from episodes.workflows.payloads import FinishInput, JudgeInput, TurnResult
from podium_kit.rpc.errors import DomainError, InternalError

log = logging.getLogger(__name__)

HEARTBEAT_INTERVAL_S = 0.5


@asynccontextmanager
async def heartbeats() -> AsyncIterator[None]:
    """Heartbeats while the block runs. A cancel arrives as CancelledError in the block."""
    beating = asyncio.create_task(_beat())
    try:
        yield
    finally:
        beating.cancel()


async def _beat() -> None:
    while True:
        await asyncio.sleep(HEARTBEAT_INTERVAL_S)
        activity.heartbeat()


@contextmanager
def activity_errors() -> Iterator[None]:
    """Raises errors as ApplicationError: transient ones are retried, at the time that their source
    names.

    Causes are dropped: Temporal would store the text of libraries, and drop it all when it is
    long.
    """
    try:
        yield
    except DomainError as error:
        raise _application_error(error) from None
    except Exception:
        log.exception("internal error in activity %s", activity.info().activity_type)
        raise _application_error(InternalError()) from None


def _application_error(error: DomainError) -> ApplicationError:
    transient = isinstance(error, TRANSIENT)
    if isinstance(error, InternalError):
        info = activity.info()
        transient = faults_of(f"{info.workflow_run_id}/{info.activity_id}") < FAULTS_MAX
    delay_s = error.retry_after_s
    return ApplicationError(
        error.message,
        type=error.reason,
        non_retryable=not transient,
        next_retry_delay=None if delay_s is None else timedelta(seconds=delay_s),
    )


@contextmanager
def attempt_at(logs: StepLogs, episode_id: str) -> Iterator[None]:
    """Forgets the log where another attempt follows, perhaps on another worker.

    No attempt follows a cancel by the workflow, whose end releases the holds of unsent calls.
    """
    try:
        yield
    except BaseException:
        details = activity.cancellation_details()
        if details is None or not details.cancel_requested:
            logs.forget(episode_id)
        raise


@dataclass(frozen=True)
class EpisodeActivities:
    executor: EpisodeExecutor

    @activity.defn(name=TAKE_TURN)
    async def take_turn(self, run: TurnInput) -> TurnResult:
        remaining_s = run.deadline - time.time() if run.deadline else math.inf
        limits = ExecutionLimits(
            remaining_s,
            asyncio.Event(),
            lambda _: "drain" if activity.is_worker_shutdown() else "",
        )
        is_retry = run.resumed or activity.info().attempt > 1
        async with self._attempt(run.episode_id):
            running = asyncio.create_task(self.executor.run(run, limits, is_retry=is_retry))
            return TurnResult.of(await _until_cancelled(running, limits.cancelled))

    @activity.defn(name=JUDGE_ANSWER)
    async def judge_answer(self, judge: JudgeInput) -> None:
        info = activity.info()
        async with self._attempt(judge.episode_id):
            await self.executor.judge.judge_answer(
                judge.episode_id, is_retry=info.attempt > 1, answer_time=info.scheduled_time
            )

    @activity.defn(name=FINISH_EPISODE)
    async def finish_episode(self, finish: FinishInput) -> None:
        async with heartbeats():
            await self.executor.finisher.finish(
                finish.episode_id, finish.end, unjudged_reason=finish.unjudged_reason
            )

    @asynccontextmanager
    async def _attempt(self, episode_id: str) -> AsyncIterator[None]:
        with activity_errors(), attempt_at(self.executor.turns.logs, episode_id):
            async with heartbeats():
                yield


async def _until_cancelled(running: asyncio.Task[Outcome], cancelled: asyncio.Event) -> Outcome:
    """Returns the outcome; the executor handles the workflow's cancel, any other stops the run."""
    while True:
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            details = activity.cancellation_details()
            if running.done() or details is None or not details.cancel_requested:
                running.cancel()
                await asyncio.wait([running])
                raise
            cancelled.set()
