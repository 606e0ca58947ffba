"""Records a history for every way an episode ends: `python -m workflows.record_histories`.

Run it when the workflow gains a way to end. Histories that ran are never changed: it records those
that are missing.
"""

import asyncio
import re
from pathlib import Path
from tempfile import TemporaryDirectory

from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from episodes.execution.outcomes import Approval, TurnInput
from episodes.keys import workflow_id
from episodes.workflows.connection import connect_temporal
from episodes.workflows.episode_workflow import EpisodeWorkflow
from episodes.workflows.payloads import JudgeInput, TurnResult
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.temporal import EmbeddedTemporal
from workflows.running_workflows import running_workflows
from workflows.scripted_activities import (
    ScriptedActivities,
    answers_in,
    asks_children,
    waits_for_approval,
)

FOLDER = Path(__file__).parent / "histories"


async def record(client: Client, name: str, activities: ScriptedActivities) -> None:
    if (FOLDER / f"{name}.json").exists():
        return
    async with running_workflows(client, activities) as workflows:
        handle = await workflows.start(
            turn_limit=3,
            time_limit_s=1 if name == "deadline" else 60,
            checked=name in ("judged", "unjudged"),
        )
        await asyncio.sleep(0.5)
        if name == "cancelled":
            await handle.cancel()
        if name == "approved":
            for index in (0, 1):
                await handle.execute_update(EpisodeWorkflow.decide, Approval(1, index, True, "ada"))
        await handle.result()
        if name == "child":
            called = activities.admitted[0].episode_id
            handle = workflows.client.get_workflow_handle_for(
                EpisodeWorkflow.run, workflow_id(called)
            )
        history = (await handle.fetch_history()).to_json()
    (FOLDER / f"{name}.json").write_text(without_machine(history))


def without_machine(history: str) -> str:
    for name_of, shown in (("identity", "w"), ("stackTrace", "")):
        history = re.sub(rf'"{name_of}": "(\\.|[^"\\])*"', f'"{name_of}": "{shown}"', history)
    return history


def fails(turn: TurnInput) -> TurnResult:
    raise ApplicationError("no model answers", non_retryable=True)


def cannot_judge(judge: JudgeInput) -> None:
    raise ApplicationError("no sandbox answers", non_retryable=True)


async def main() -> None:
    with TemporaryDirectory(prefix="podium-temporal-") as folder:
        temporal = EmbeddedTemporal(Path(folder), free_port())
        await temporal.start()
        client = await connect_temporal(temporal.target, "default")
        await record(client, "answered", ScriptedActivities(answers_in(2)))
        await record(client, "turn_limit", ScriptedActivities(answers_in(99)))
        await record(client, "cancelled", ScriptedActivities(answers_in(99), delay_s=30))
        await record(client, "deadline", ScriptedActivities(answers_in(99), delay_s=30))
        await record(client, "approved", ScriptedActivities(waits_for_approval))
        await record(client, "failed", ScriptedActivities(fails))
        await record(client, "judged", ScriptedActivities(answers_in(1), finishes=False))
        await record(
            client,
            "unjudged",
            ScriptedActivities(answers_in(1), judge=cannot_judge, finishes=False),
        )
        await record(client, "children", ScriptedActivities(asks_children))
        await record(client, "child", ScriptedActivities(asks_children))
        await record(client, "drained", ScriptedActivities(answers_in(3), drains_at=2))
        await temporal.stop()


if __name__ == "__main__":
    asyncio.run(main())
