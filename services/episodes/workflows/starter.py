import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from temporalio.client import (
    WorkflowExecutionStatus,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import (
    Priority,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from episodes.execution.outcomes import Approval
from episodes.keys import fairness_key, workflow_id
from episodes.models import NewEpisode, StopReason
from episodes.workflows.connection import TemporalConnection
from episodes.workflows.episode_workflow import EpisodeWorkflow
from episodes.workflows.payloads import EpisodeInput, TurnResult
from episodes.workflows.retry_policies import TASK_TIMEOUT
from episodes.workflows.search_attributes import SEARCH_ATTRIBUTES, episode_input, search_attributes
from podium_kit.rpc.errors import Unavailable

log = logging.getLogger(__name__)

GONE = (RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION)


class TemporalUnavailable(Unavailable):
    def __init__(self) -> None:
        super().__init__("Temporal does not answer; try again")


class WorkflowStarter:
    def __init__(self, temporal: TemporalConnection, task_queue: str, timeout_s: float) -> None:
        self._temporal = temporal
        self._task_queue = task_queue
        self._timeout_s = timeout_s

    async def resume(self, new: NewEpisode, remaining_s: float, ending: TurnResult | None) -> None:
        """Starts the workflow of an episode that ran without one, unless it runs or has run.

        It continues for the remaining time, or only ends the episode. Raises TemporalUnavailable.
        """
        rest = replace(
            episode_input(new), time_limit_s=max(remaining_s, 0.001), ending=ending, resumed=True
        )
        with suppress(WorkflowAlreadyStartedError):
            await self._start(new, rest, WorkflowIDReusePolicy.REJECT_DUPLICATE)

    async def end(self, new: NewEpisode, reason: str) -> None:
        only_end = replace(episode_input(new), ending=TurnResult(StopReason.FAILED, reason))
        await self._start(new, only_end, WorkflowIDReusePolicy.ALLOW_DUPLICATE)

    async def status(self, episode_id: str) -> WorkflowExecutionStatus | None:
        handle = self._temporal.client.get_workflow_handle(workflow_id(episode_id))
        try:
            async with self._answer():
                return (await handle.describe()).status
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise TemporalUnavailable from error

    async def cancel(self, episode_id: str) -> None:
        handle = self._temporal.client.get_workflow_handle(workflow_id(episode_id))
        try:
            async with self._answer():
                await handle.cancel()
        except RPCError as error:
            if error.status not in GONE:
                raise TemporalUnavailable from error

    async def decide(self, episode_id: str, approval: Approval) -> bool:
        """Passes a decision on; False when no such call waits for one. A retry changes nothing.

        Raises TemporalUnavailable.
        """
        handle = self._temporal.client.get_workflow_handle_for(
            EpisodeWorkflow.run, workflow_id(episode_id)
        )
        try:
            async with self._answer():
                await handle.execute_update(EpisodeWorkflow.decide, approval)
        except WorkflowUpdateFailedError:
            return False
        except WorkflowUpdateRPCTimeoutOrCancelledError as error:
            raise TemporalUnavailable from error
        except RPCError as error:
            # FAILED_PRECONDITION is a workflow whose task fails at the moment, and is retried.
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise TemporalUnavailable from error
        return True

    async def caller_answered(self, episode_id: str, turn: int) -> None:
        handle = self._temporal.client.get_workflow_handle_for(
            EpisodeWorkflow.run, workflow_id(episode_id)
        )
        try:
            async with self._answer():
                await handle.signal(EpisodeWorkflow.caller_answered, turn)
        except RPCError as error:
            if error.status not in GONE:
                raise TemporalUnavailable from error

    async def _start(
        self, new: NewEpisode, episode: EpisodeInput, reuse: WorkflowIDReusePolicy
    ) -> None:
        try:
            try:
                await self._start_with(new, episode, reuse, search_attributes(new))
            except RPCError as error:
                if error.status is not RPCStatusCode.INVALID_ARGUMENT:
                    raise
                # They are not registered: the episode runs all the same, and is found by the
                # workflow's id.
                names = ", ".join(SEARCH_ATTRIBUTES)
                log.warning("Temporal lacks a search attribute of %s: %s", names, error.message)
                await self._start_with(new, episode, reuse, TypedSearchAttributes.empty)
        except RPCError as error:
            raise TemporalUnavailable from error

    async def _start_with(
        self,
        new: NewEpisode,
        episode: EpisodeInput,
        reuse: WorkflowIDReusePolicy,
        attributes: TypedSearchAttributes,
    ) -> None:
        async with self._answer():
            await self._temporal.client.start_workflow(
                EpisodeWorkflow.run,
                episode,
                id=workflow_id(episode.episode_id),
                task_queue=self._task_queue,
                id_reuse_policy=reuse,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                task_timeout=TASK_TIMEOUT,
                search_attributes=attributes,
                # A server with matching.enableFairness serves tenants in turn.
                priority=Priority(fairness_key=fairness_key(new.tenant)),
            )

    @asynccontextmanager
    async def _answer(self) -> AsyncIterator[None]:
        """Raises TemporalUnavailable when Temporal stalls; its client alone would wait without
        end."""
        try:
            async with asyncio.timeout(self._timeout_s):
                yield
        except TimeoutError as error:
            raise TemporalUnavailable from error
