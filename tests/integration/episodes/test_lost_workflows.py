"""An episode whose workflow was terminated, or that Temporal lost, ends all the same."""

import asyncio
from collections.abc import Callable

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client

from episodes.keys import workflow_id
from integration.episodes.neighbours import answer, call, calls, in_turns
from integration.episodes.platform_under_test import EpisodesPlatform, finished, start
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium_kit.embedded.temporal import EmbeddedTemporal


async def test_a_terminated_workflow_ends_its_episode(
    platform: EpisodesPlatform, temporal: EmbeddedTemporal
) -> None:
    platform.neighbours.orchestrator.delay_s = 600.0
    episode_id = await _started(platform, lambda: bool(platform.neighbours.orchestrator.requests))
    handle = (await Client.connect(temporal.target)).get_workflow_handle(workflow_id(episode_id))
    await handle.terminate("an operator's mistake")
    await _assert_ended(platform, episode_id, "terminated")


async def test_a_workflow_that_temporal_lost_ends_its_episode(
    platform: EpisodesPlatform, temporal: EmbeddedTemporal
) -> None:
    platform.neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))
    platform.neighbours.adapters.delay_s = 600.0
    episode_id = await _started(platform, lambda: bool(platform.neighbours.adapters.requests))
    client = await Client.connect(temporal.target)
    execution = WorkflowExecution(workflow_id=workflow_id(episode_id))
    await client.workflow_service.delete_workflow_execution(
        DeleteWorkflowExecutionRequest(namespace="default", workflow_execution=execution)
    )
    await _assert_ended(platform, episode_id, "gone|terminated")


async def _started(platform: EpisodesPlatform, runs: Callable[[], bool]) -> str:
    async with platform.client() as client, asyncio.timeout(30):
        episode = await start(client)
        while not runs():
            await asyncio.sleep(0.05)
    return episode.id


async def _assert_ended(platform: EpisodesPlatform, episode_id: str, why: str) -> None:
    async with platform.client() as client, asyncio.timeout(60):
        ended = await finished(client, episode_id)
        reply = await client.GetTrajectory(pb.GetTrajectoryRequest(episode_id=episode_id))
        running = await client.ListEpisodes(
            pb.ListEpisodesRequest(
                states=[episode_pb2.EPISODE_STATE_PENDING, episode_pb2.EPISODE_STATE_RUNNING]
            )
        )
    assert ended.stop_reason == episode_pb2.STOP_REASON_FAILED
    assert any(word in ended.failure.message for word in why.split("|")), ended.failure
    assert reply.trajectory.episode_id == episode_id
    assert not running.episodes
    ledger = platform.neighbours.ledger
    assert not set(ledger.holds) - set(ledger.captured) - ledger.released
