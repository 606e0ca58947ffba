import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from temporalio.api.workflowservice.v1 import SetWorkerDeploymentCurrentVersionRequest
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from episodes.execution.outcomes import EpisodeResult
from episodes.workflows.episode_workflow import EpisodeWorkflow
from episodes.workflows.payloads import EpisodeInput
from episodes.workflows.versioning import deployment_config
from workflows.scripted_activities import ScriptedActivities


@dataclass
class WorkflowsUnderTest:
    client: Client
    task_queue: str

    async def start(
        self, turn_limit: int = 5, time_limit_s: float = 60.0, checked: bool = False
    ) -> WorkflowHandle[EpisodeWorkflow, EpisodeResult]:
        return await self.client.start_workflow(
            EpisodeWorkflow.run,
            EpisodeInput(str(uuid.uuid4()), turn_limit, time_limit_s, checked=checked),
            id=f"episode/{uuid.uuid4()}",
            task_queue=self.task_queue,
        )


@asynccontextmanager
async def running_workflows(
    client: Client, activities: ScriptedActivities, version: tuple[str, str] = ("", "")
) -> AsyncIterator[WorkflowsUnderTest]:
    queue = f"test-{uuid.uuid4()}"
    worker = Worker(
        client,
        task_queue=queue,
        # Temporal's default hashes the code of every module that the tests have imported.
        build_id=None if any(version) else "tests",
        workflows=[EpisodeWorkflow],
        activities=[
            activities.take_turn,
            activities.judge_answer,
            activities.finish_episode,
            activities.admit_child,
        ],
        deployment_config=deployment_config(*version),
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_heartbeat_throttle_interval=timedelta(seconds=0.2),
        default_heartbeat_throttle_interval=timedelta(seconds=0.2),
    )
    async with worker:
        yield WorkflowsUnderTest(client, queue)


async def make_current(client: Client, name: str, build_id: str) -> None:
    """Makes a version current, as the worker controller does once its worker has polled."""
    request = SetWorkerDeploymentCurrentVersionRequest(
        namespace="default", deployment_name=name, build_id=build_id
    )
    while True:
        try:
            await client.workflow_service.set_worker_deployment_current_version(request)
        except RPCError:
            await asyncio.sleep(0.1)
        else:
            return
