import subprocess
import sys
from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from episodes.execution.outcomes import EpisodeResult
from episodes.workflows.codec import data_converter
from episodes.workflows.episode_workflow import EpisodeWorkflow
from episodes.workflows.payloads import EpisodeInput

HISTORIES = sorted(Path(__file__).parent.glob("histories/*.json"))


def history(path: Path) -> WorkflowHistory:
    return WorkflowHistory.from_json(path.stem, path.read_text())


def replayer(kind: type, runner: WorkflowRunner) -> Replayer:
    return Replayer(
        workflows=[kind],
        workflow_runner=runner,
        data_converter=data_converter(),
        # Temporal's default hashes the code of every module that the tests have imported.
        build_id="tests",
    )


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
@pytest.mark.parametrize("runner", [SandboxedWorkflowRunner, UnsandboxedWorkflowRunner])
async def test_recorded_history_replays(path: Path, runner: type[WorkflowRunner]) -> None:
    await replayer(EpisodeWorkflow, runner()).replay_workflow(history(path))


def test_the_workflow_imports_no_database_driver() -> None:
    """The sandbox imports again what a workflow imports, and asyncpg crashes after that."""
    loaded = f"import sys, {EpisodeWorkflow.__module__}; print(*sys.modules)"
    modules = subprocess.check_output([sys.executable, "-c", loaded], text=True).split()
    assert not {"asyncpg", "sqlalchemy"} & set(modules)


def test_every_way_an_episode_ends_is_recorded() -> None:
    recorded = {path.stem for path in HISTORIES}
    endings = {"answered", "approved", "cancelled", "deadline", "failed", "turn_limit"}
    assert recorded == endings | {"judged", "unjudged", "children", "child", "drained"}


@workflow.defn(name="Episode")
class FinishesWithoutTurns:
    @workflow.run
    async def run(self, episode: EpisodeInput) -> EpisodeResult:
        return EpisodeResult("answered")


async def test_a_changed_order_of_steps_does_not_replay() -> None:
    path = next(path for path in HISTORIES if path.stem == "answered")
    changed = replayer(FinishesWithoutTurns, UnsandboxedWorkflowRunner())
    with pytest.raises(workflow.NondeterminismError):
        await changed.replay_workflow(history(path))
