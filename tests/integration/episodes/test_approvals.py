from typing import TYPE_CHECKING

import grpc
import psutil
import pytest

from integration.episodes.neighbours import answer, call, calls, in_turns, make_toolset
from integration.episodes.platform_under_test import EpisodesPlatform, finished, start
from podium.episodes.v1 import episode_pb2, trajectory_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium_kit.embedded.temporal import EmbeddedTemporal

if TYPE_CHECKING:
    from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceAsyncStub


def pays(platform: EpisodesPlatform, self_approval: bool = False) -> None:
    toolset = make_toolset("pay", needs_approval=True)
    toolset.self_approval = self_approval
    platform.neighbours.registry.toolset = toolset
    platform.neighbours.orchestrator.decide = in_turns(calls(call("pay")), answer("paid"))


async def until_asked(client: "EpisodeServiceAsyncStub", episode_id: str) -> None:
    async for response in client.WatchEpisode(pb.WatchEpisodeRequest(episode_id=episode_id)):
        if response.event.HasField("approval_requested"):
            return


async def decide(client: "EpisodeServiceAsyncStub", episode_id: str, approved: bool) -> None:
    await client.ApproveToolCall(
        pb.ApproveToolCallRequest(episode_id=episode_id, turn=1, approved=approved)
    )


async def decision_of(
    client: "EpisodeServiceAsyncStub", episode_id: str
) -> trajectory_pb2.ApprovalDecision:
    await finished(client, episode_id)
    reply = await client.GetTrajectory(pb.GetTrajectoryRequest(episode_id=episode_id))
    return reply.trajectory.turns[0].tool_invocations[0].approval


async def asked(client: "EpisodeServiceAsyncStub") -> episode_pb2.Episode:
    episode = await start(client)
    await until_asked(client, episode.id)
    return episode


async def test_the_starter_is_rejected_and_somebody_else_approves(
    platform: EpisodesPlatform,
) -> None:
    pays(platform)
    async with platform.client() as ada, platform.client(subject="boss") as boss:
        episode = await asked(ada)
        with pytest.raises(grpc.aio.AioRpcError) as rejected:
            await decide(ada, episode.id, approved=True)
        assert rejected.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert "a second person approves" in (rejected.value.details() or "")
        await decide(boss, episode.id, approved=True)
        made = await decision_of(ada, episode.id)
    assert (made.approved, made.actor) == (True, "boss")


@pytest.mark.parametrize(
    ("starter", "approver"),
    [
        (("ada", ()), ("boss", ("creator:ada",))),
        (("robot", ("creator:ada",)), ("ada", ())),
        (("robot", ("creator:ada",)), ("boss", ("creator:ada",))),
        (("robot", ("creator:bob", "creator:ada")), ("boss", ("role:approver", "creator:ada"))),
    ],
    ids=["created by the starter", "by its creator", "both by one", "one of several"],
)
async def test_the_creator_of_a_key_is_the_same_person_as_its_subject(
    platform: EpisodesPlatform,
    starter: tuple[str, tuple[str, ...]],
    approver: tuple[str, tuple[str, ...]],
) -> None:
    pays(platform)
    async with (
        platform.client(subject=starter[0], groups=starter[1]) as one,
        platform.client(subject=approver[0], groups=approver[1]) as same,
        platform.client(subject="carol", groups=("creator:operator",)) as second,
    ):
        episode = await asked(one)
        with pytest.raises(grpc.aio.AioRpcError, match="a second person") as rejected:
            await decide(same, episode.id, approved=True)
        assert rejected.value.code() is grpc.StatusCode.PERMISSION_DENIED
        await decide(second, episode.id, approved=True)
        assert (await decision_of(one, episode.id)).actor == "carol"


async def test_the_starter_may_deny(platform: EpisodesPlatform) -> None:
    pays(platform)
    async with platform.client() as ada:
        episode = await asked(ada)
        await decide(ada, episode.id, approved=False)
        made = await decision_of(ada, episode.id)
    assert (made.approved, made.actor) == (False, "ada")


async def test_a_policy_may_let_the_starter_approve(platform: EpisodesPlatform) -> None:
    pays(platform, self_approval=True)
    async with platform.client() as ada:
        episode = await asked(ada)
        await decide(ada, episode.id, approved=True)
        made = await decision_of(ada, episode.id)
    assert (made.approved, made.actor) == (True, "ada")


async def test_only_a_call_that_was_asked_about_is_decided(platform: EpisodesPlatform) -> None:
    pays(platform)
    async with platform.client() as ada, platform.client(subject="boss") as boss:
        episode = await asked(ada)
        with pytest.raises(grpc.aio.AioRpcError) as rejected:
            await boss.ApproveToolCall(
                pb.ApproveToolCallRequest(
                    episode_id=episode.id, turn=1, call_index=1, approved=True
                )
            )
        assert rejected.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        await decide(boss, episode.id, approved=True)
        assert (await decision_of(ada, episode.id)).approved


@pytest.mark.chaos
async def test_a_decision_while_temporal_stalls_is_answered_in_time_and_counts_once(
    own_platform: EpisodesPlatform, temporal: EmbeddedTemporal
) -> None:
    pays(own_platform)
    process = psutil.Process(temporal.process.pid)
    async with own_platform.client() as ada, own_platform.client(subject="boss") as boss:
        episode = await asked(ada)
        process.suspend()
        try:
            with pytest.raises(grpc.aio.AioRpcError) as stalled:
                await decide(boss, episode.id, approved=True)
        finally:
            process.resume()
        assert stalled.value.code() is grpc.StatusCode.UNAVAILABLE
        await decide(boss, episode.id, approved=True)
        assert (await decision_of(ada, episode.id)).actor == "boss"
    assert len(own_platform.neighbours.adapters.requests) == 1
