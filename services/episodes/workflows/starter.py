"""Starts, cancels and updates the workflows of episodes."""

from temporalio.client import WorkflowUpdateFailedError
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from episodes.keys import workflow_id
from episodes.models import NewEpisode
from episodes.temporal.connection import TemporalConnection
from episodes.workflows.convert import episode_input
from episodes.workflows.episode import EpisodeWorkflow
from episodes.workflows.payloads import Approval
from episodes.workflows.retry_policies import TASK_TIMEOUT
from podium_kit.rpc.errors import Unavailable

GONE = (RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION)


class TemporalUnavailable(Unavailable):
    """Temporal does not answer; the same request may work in a moment."""

    def __init__(self, error: RPCError) -> None:
        super().__init__(f"Temporal does not answer ({error.status.name}); try again")


class WorkflowStarter:
    """One workflow per episode, found by the episode's id."""

    def __init__(self, temporal: TemporalConnection, task_queue: str) -> None:
        self._temporal = temporal
        self._task_queue = task_queue

    async def start(self, new: NewEpisode) -> None:
        """Starts the workflow unless it runs or has run. Raises TemporalUnavailable."""
        try:
            await self._temporal.client.start_workflow(
                EpisodeWorkflow.run,
                episode_input(new),
                id=workflow_id(new.episode_id),
                task_queue=self._task_queue,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                task_timeout=TASK_TIMEOUT,
            )
        except WorkflowAlreadyStartedError:
            # It has run to its end already: exactly what a retried start should find.
            return
        except RPCError as error:
            raise TemporalUnavailable(error) from error

    async def cancel(self, episode_id: str) -> None:
        """Asks the workflow to end. Raises TemporalUnavailable."""
        try:
            await self._temporal.client.get_workflow_handle(workflow_id(episode_id)).cancel()
        except RPCError as error:
            if error.status not in GONE:
                raise TemporalUnavailable(error) from error

    async def decide(self, episode_id: str, approval: Approval) -> bool:
        """Passes a decision on; False when no such call waits for one."""
        handle = self._temporal.client.get_workflow_handle_for(
            EpisodeWorkflow.run, workflow_id(episode_id)
        )
        try:
            await handle.execute_update(EpisodeWorkflow.decide, approval)
        except WorkflowUpdateFailedError:
            return False
        except RPCError as error:
            if error.status in GONE:
                return False
            raise TemporalUnavailable(error) from error
        return True
