import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleSpec,
    WorkflowFailureError,
    WorkflowHandle,
)
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from episodes.workflows.connection import connect_temporal
from podium_kit.client.errors import UsageError, UserError
from podium_kit.client.gateway import Gateway
from podium_training.rollouts.activities import RolloutActivities
from podium_training.rollouts.payloads import RolloutProgress, RolloutRun
from podium_training.rollouts.settings import RolloutSettings
from podium_training.rollouts.workflow import RolloutWorkflow

# How soon a worker that ends is noticed, and how soon a cancel reaches a group.
HEARTBEAT_THROTTLE = timedelta(seconds=1)
GRACEFUL_SHUTDOWN = timedelta(seconds=5)
ATTEMPTS_MAX = 5
Run = WorkflowHandle[RolloutWorkflow, RolloutProgress]
Result = TypeVar("Result")


async def open_temporal(settings: RolloutSettings, address: str) -> Client:
    return await connect_temporal(
        address, settings.temporal_namespace, settings.temporal, ATTEMPTS_MAX
    )


async def start_run(client: Client, task_queue: str, run: RolloutRun) -> Run:
    """The workflow of the run, also when it was started before."""
    id = f"rollouts/{run.run_id}"
    try:
        return await client.start_workflow(RolloutWorkflow.run, run, id=id, task_queue=task_queue)
    except WorkflowAlreadyStartedError:
        return client.get_workflow_handle_for(RolloutWorkflow.run, id)


async def schedule_runs(
    client: Client, task_queue: str, run: RolloutRun, name: str, cron: str
) -> None:
    """A run of its own at every time, unless the one before still continues. Raises UsageError."""
    action = ScheduleActionStartWorkflow(
        RolloutWorkflow.run, run, id=f"rollouts/{name}", task_queue=task_queue
    )
    try:
        await client.create_schedule(name, Schedule(action, ScheduleSpec(cron_expressions=[cron])))
    except ScheduleAlreadyRunningError as error:
        fix = f"give it another --name, or `temporal schedule delete -s {name}`"
        raise UsageError(f"there is a schedule {name} already", fix) from error
    except RPCError as error:
        if error.status is not RPCStatusCode.INVALID_ARGUMENT:
            raise
        cause = f"Temporal takes no schedule {name} of {cron!r}: {error.message}"
        raise UsageError(cause, 'write it like --cron "0 3 * * *"') from error


async def ended(handle: WorkflowHandle[Any, Result]) -> Result:
    """Waits for the end of a run. Raises UserError where it failed."""
    try:
        return await handle.result()
    except WorkflowFailureError as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        raise UserError(str(cause), "fix it and start the run again") from error


async def work(
    client: Client,
    task_queue: str,
    gateway: Gateway,
    workflows: Sequence[type] = (),
    activities: Sequence[Callable[..., Any]] = (),
) -> None:
    """Works on runs of rollouts, and on what else is given, until it is cancelled."""
    rollouts = RolloutActivities(gateway)
    worker = Worker(
        client,
        task_queue=task_queue,
        workflows=[RolloutWorkflow, *workflows],
        activities=[rollouts.plan_run, rollouts.roll_group, *activities],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        default_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        graceful_shutdown_timeout=GRACEFUL_SHUTDOWN,
    )
    async with worker:
        await asyncio.Event().wait()
