import uuid
from pathlib import Path

import pytest
from temporalio.client import Client, WorkflowFailureError, WorkflowHistory
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from episodes.workflows.codec import data_converter
from episodes.workflows.connection import connect_temporal
from podium_kit.embedded.temporal import EmbeddedTemporal
from podium_training.rollouts.payloads import GroupOfRun, RolloutTotals
from podium_training.rollouts.workflow import GROUPS_PER_HISTORY, RolloutWorkflow
from workflows.running_rollouts import TOOLS, ScriptedRollouts, make_run, running

RUN = "01936b2f-3c00-7000-8000-000000000001"
HISTORIES = sorted(Path(__file__).parent.glob("rollout_histories/*.json"))


def history(path: Path) -> WorkflowHistory:
    return WorkflowHistory.from_json(path.stem, path.read_text())


@pytest.fixture
async def client(temporal: EmbeddedTemporal) -> Client:
    return await connect_temporal(temporal.target, "default")


async def test_every_group_is_rolled_once_and_so_many_at_a_time(client: Client) -> None:
    activities = ScriptedRollouts(groups=9)
    async with running(client, activities, make_run(RUN, groups_at_once=3)) as handle:
        found = await handle.result()
        assert await handle.query(RolloutWorkflow.progress) == found
    assert found.done == RolloutTotals(groups=9, episodes=18, solved=9)
    assert sorted(group.index for group in activities.rolled) == list(range(9))
    assert {group.run.run_id for group in activities.rolled} == {RUN}
    assert activities.rolled[0].run.tool_names == TOOLS
    assert activities.running_max <= 3


async def test_a_group_that_fails_for_a_while_is_tried_again_and_the_others_go_on(
    client: Client,
) -> None:
    failures = iter([True, True])

    def script(group: GroupOfRun) -> None:
        if group.index == 1 and next(failures, False):
            raise RuntimeError("the platform is away")

    activities = ScriptedRollouts(groups=3, script=script)
    async with running(client, activities, make_run(RUN)) as handle:
        assert (await handle.result()).done.groups == 3
    assert [group.index for group in activities.rolled].count(1) == 3


async def test_what_the_platform_rejects_ends_the_run_with_its_words(client: Client) -> None:
    def script(group: GroupOfRun) -> None:
        raise ApplicationError("there is no policy nosuch", non_retryable=True)

    async with running(client, ScriptedRollouts(2, script), make_run(RUN)) as handle:
        with pytest.raises(WorkflowFailureError) as failed:
            await handle.result()
    assert "nosuch" in str(failed.value.cause.__cause__)


async def test_a_long_run_continues_as_new_under_the_same_ids(client: Client) -> None:
    activities = ScriptedRollouts(groups=GROUPS_PER_HISTORY + 1)
    async with running(client, activities, make_run(groups_at_once=50)) as handle:
        found = await handle.result()
    assert found.done.groups == GROUPS_PER_HISTORY + 1
    assert len({group.index for group in activities.rolled}) == GROUPS_PER_HISTORY + 1
    [run_id] = {group.run.run_id for group in activities.rolled}
    assert uuid.UUID(run_id).version == 7


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_recorded_history_replays(path: Path) -> None:
    replayer = Replayer(
        workflows=[RolloutWorkflow],
        workflow_runner=UnsandboxedWorkflowRunner(),
        data_converter=data_converter(),
        # Temporal's default hashes the code of every module that the tests have imported.
        build_id="tests",
    )
    await replayer.replay_workflow(history(path))


def test_runs_with_and_without_a_given_id_are_recorded() -> None:
    assert {path.stem for path in HISTORIES} >= {"named", "scheduled"}
