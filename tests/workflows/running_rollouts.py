import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from podium_training.rollouts.payloads import (
    GroupOfRun,
    PlannedRun,
    RolloutLimits,
    RolloutProgress,
    RolloutRun,
    RolloutTotals,
)
from podium_training.rollouts.workflow import PLAN_RUN, ROLL_GROUP, RolloutWorkflow

TOOLS = ["calculator", "search"]
Script = Callable[[GroupOfRun], None]


def make_run(run_id: str = "", groups_at_once: int = 4) -> RolloutRun:
    return RolloutRun("tasks.jsonl", "0" * 64, 2, groups_at_once, 6, RolloutLimits(), run_id)


@dataclass
class ScriptedRollouts:
    groups: int
    script: Script = lambda group: None
    rolled: list[GroupOfRun] = field(default_factory=list)
    running: int = 0
    running_max: int = 0

    @activity.defn(name=PLAN_RUN)
    async def plan_run(self, run: RolloutRun) -> PlannedRun:
        return PlannedRun(TOOLS, self.groups)

    @activity.defn(name=ROLL_GROUP)
    async def roll_group(self, group: GroupOfRun) -> RolloutTotals:
        self.running += 1
        self.running_max = max(self.running_max, self.running)
        self.rolled.append(group)
        try:
            self.script(group)
            await asyncio.sleep(0)
        finally:
            self.running -= 1
        return RolloutTotals(groups=1, episodes=2, solved=1)


@asynccontextmanager
async def running(
    client: Client, activities: ScriptedRollouts, run: RolloutRun
) -> AsyncIterator[WorkflowHandle[RolloutWorkflow, RolloutProgress]]:
    queue = f"test-{uuid.uuid4()}"
    worker = Worker(
        client,
        task_queue=queue,
        # Temporal's default hashes the code of every module that the tests have imported.
        build_id="tests",
        workflows=[RolloutWorkflow],
        activities=[activities.plan_run, activities.roll_group],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    async with worker:
        yield await client.start_workflow(
            RolloutWorkflow.run, run, id=f"rollouts/{uuid.uuid4()}", task_queue=queue
        )
