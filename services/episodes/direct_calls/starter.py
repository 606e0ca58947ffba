"""The workflow of a call, started and waited for."""

import asyncio
from contextlib import suppress

from temporalio.client import WorkflowFailureError
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from episodes.direct_calls.call import DirectCall
from episodes.direct_calls.payloads import CallInput
from episodes.direct_calls.workflow import DirectCallWorkflow
from episodes.temporal.connection import TemporalConnection
from episodes.workflows.retry_policies import TASK_TIMEOUT
from episodes.workflows.starter import TemporalUnavailable


class DirectCallStarter:
    """One workflow per call, found by the call's id."""

    def __init__(self, temporal: TemporalConnection, task_queue: str, timeout_s: float) -> None:
        self._temporal = temporal
        self._task_queue = task_queue
        self._timeout_s = timeout_s

    async def start(self, call: DirectCall) -> None:
        """Starts the workflow unless it runs or has run. Raises TemporalUnavailable."""
        try:
            # What has run to its end already is what a retried start should find.
            with suppress(WorkflowAlreadyStartedError):
                async with asyncio.timeout(self._timeout_s):
                    await self._temporal.client.start_workflow(
                        DirectCallWorkflow.run,
                        CallInput(call.stored.id, call.timeout_s),
                        id=_workflow_id(call.stored.id),
                        task_queue=self._task_queue,
                        id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                        task_timeout=TASK_TIMEOUT,
                    )
        except (RPCError, TimeoutError) as error:
            raise TemporalUnavailable from error

    async def ended(self, call_id: str, wait_s: float) -> None:
        """Waits until the workflow has ended, or for so long. Raises TemporalUnavailable."""
        handle = self._temporal.client.get_workflow_handle(_workflow_id(call_id))
        try:
            async with asyncio.timeout(wait_s):
                await handle.result()
        except RPCError as error:
            raise TemporalUnavailable from error
        except (TimeoutError, WorkflowFailureError):
            return


def _workflow_id(call_id: str) -> str:
    return f"direct-call/{call_id}"
