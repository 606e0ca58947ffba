"""A bare Temporal worker: a workflow of activities that do nothing, or only wait.

The same server settings, the same worker tuning and as many durable steps as an
episode has, with none of its work.
"""

import asyncio
import sys
from dataclasses import dataclass
from datetime import timedelta

import uvloop
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

TASK_QUEUE = "floor"


@dataclass(frozen=True)
class FloorInput:
    """The turns, the durable steps per turn, and the seconds the first step of a turn waits.

    The last turn has one step: an episode ends with a model call and no tool call.
    """

    turns: int
    steps_per_turn: int
    wait_s: float


@activity.defn
async def step(wait_s: float) -> str:
    if wait_s:
        await asyncio.sleep(wait_s)
    return "done"


@workflow.defn
class Floor:
    @workflow.run
    async def run(self, floor: FloorInput) -> int:
        for turn in range(1, floor.turns + 1):
            for number in range(floor.steps_per_turn if turn < floor.turns else 1):
                await workflow.execute_activity(
                    step,
                    floor.wait_s if number == 0 else 0.0,
                    start_to_close_timeout=timedelta(seconds=60),
                    heartbeat_timeout=timedelta(seconds=4),
                )
        return floor.turns


async def work(target: str) -> None:
    client = await Client.connect(target)
    await Worker(
        client,
        task_queue=TASK_QUEUE,
        workflows=[Floor],
        activities=[step],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_cached_workflows=2000,
        max_concurrent_workflow_tasks=8,
        max_concurrent_activities=400,
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
    ).run()


if __name__ == "__main__":
    uvloop.run(work(sys.argv[1]))
