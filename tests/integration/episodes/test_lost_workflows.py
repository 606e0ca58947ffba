import asyncio
from collections.abc import Callable

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client

from episodes.keys import workflow_id
from integration.episodes.neighbours import answer, call, calls, in_turns, make_toolset
from integration.episodes.platform_under_test import EpisodesPlatform, finished, start
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium_kit.embedded.temporal import EmbeddedTemporal


async def test_a_terminated_workflow_ends_its_episode(
    platform: EpisodesPlatform, temporal: EmbeddedTemporal
) -> None:
    episode_id = await _with_a_workflow(platform)
    platform.neighbours.orchestrator.delay_s = 600.0
    await _approve(platform, episode_id)
    await _until(lambda: len(platform.neighbours.orchestrator.requests) == 2)
    handle = (await Client.connect(temporal.target)).get_workflow_handle(workflow_id(episode_id))
    await handle.terminate("an operator's mistake")
    await _assert_ended(platform, episode_id, "terminated")


async def test_a_workflow_that_temporal_lost_ends_its_episode(
    platform: EpisodesPlatform, temporal: EmbeddedTemporal
) -> None:
    episode_id = await _with_a_workflow(platform)
    platform.neighbours.adapters.delay_s = 600.0
    await _approve(platform, episode_id)
    await _until(lambda: bool(platform.neighbours.adapters.requests))
    client = await Client.connect(temporal.target)
    execution = WorkflowExecution(workflow_id=workflow_id(episode_id))
    await client.workflow_service.delete_workflow_execution(
        DeleteWorkflowExecutionRequest(namespace="default", workflow_execution=execution)
    )
    await _assert_ended(platform, episode_id, "gone|terminated")


async def _with_a_workflow(platform: EpisodesPlatform) -> str:
    neighbours = platform.neighbours
    neighbours.registry.toolset = make_toolset("pay", needs_approval=True)
    neighbours.orchestrator.decide = in_turns(calls(call("pay")), answer("paid"))
    async with platform.client() as client, asyncio.timeout(30):
        episode = await start(client)
        request = pb.WatchEpisodeRequest(episode_id=episode.id)
        async for response in client.WatchEpisode(request):
            if response.event.HasField("approval_requested"):
                break
    return episode.id


async def _approve(platform: EpisodesPlatform, episode_id: str) -> None:
    async with platform.client(subject="boss") as boss:
        await boss.ApproveToolCall(
            pb.ApproveToolCallRequest(episode_id=episode_id, turn=1, approved=True)
        )


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.05)


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
