from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from callers import client_channel, make_identity
from integration.episodes.neighbours import (
    answer,
    call,
    calls,
    in_turns,
    make_toolset,
)
from integration.episodes.platform_under_test import EpisodesPlatform, finished, new_id, start
from podium.episodes.v1 import direct_call_service_pb2 as calls_pb
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1.direct_call_service_pb2_grpc import DirectCallServiceStub
from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceStub
from podium_kit.rpc.identity import ROLE_SCOPES, Role

if TYPE_CHECKING:
    from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceAsyncStub

TASK = "how ill is the patient?"
ANSWER = "very"


@asynccontextmanager
async def channel_of(
    platform: EpisodesPlatform, subject: str, role: Role
) -> AsyncIterator[grpc.aio.Channel]:
    identity = make_identity(platform.tenant, subject, ROLE_SCOPES[role])
    async with client_channel(platform.port, identity, platform.keys) as channel:
        yield channel


@asynccontextmanager
async def caller(
    platform: EpisodesPlatform, subject: str, role: Role
) -> AsyncIterator["EpisodeServiceAsyncStub"]:
    async with channel_of(platform, subject, role) as channel:
        yield EpisodeServiceStub(channel)


async def rejected(asked: Awaitable[Any]) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match="trajectories:read") as error:
        await asked
    assert error.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def first_event(client: "EpisodeServiceAsyncStub", episode_id: str, after: int = 0) -> Any:
    request = pb.WatchEpisodeRequest(episode_id=episode_id, after_sequence=after)
    async for response in client.WatchEpisode(request):
        return response.event
    return None


@pytest.mark.parametrize("role", [Role.TOOL_OWNER, Role.APPROVER, Role.AUDITOR])
async def test_a_colleague_without_the_scope_reads_the_metadata_alone(
    platform: EpisodesPlatform, role: Role
) -> None:
    platform.neighbours.orchestrator.decide = in_turns(answer(ANSWER))
    async with (
        caller(platform, "ada", Role.TOOL_OWNER) as ada,
        caller(platform, "eve", role) as eve,
    ):
        episode = await start(ada, TASK)
        await finished(ada, episode.id)
        told = pb.GiveFeedbackRequest(episode_id=episode.id, id="f", comment=TASK)
        await ada.GiveFeedback(told)
        got = (await eve.GetEpisode(pb.GetEpisodeRequest(episode_id=episode.id))).episode
        listed = (await eve.ListEpisodes(pb.ListEpisodesRequest())).episodes
        for seen in (got, *listed):
            assert TASK not in str(seen)
            assert (seen.id, seen.answer, seen.content_withheld) == (episode.id, "", True)
            assert seen.stop_reason == episode_pb2.STOP_REASON_ANSWERED
        own = pb.ListEpisodesRequest(own=True)
        assert not (await eve.ListEpisodes(own)).episodes
        assert [each.id for each in (await ada.ListEpisodes(own)).episodes] == [episode.id]
        for after in (0, 1, 100):
            await rejected(first_event(eve, episode.id, after))
        await rejected(eve.GetTrajectory(pb.GetTrajectoryRequest(episode_id=episode.id)))


async def test_the_starter_and_a_developer_read_all_of_it(platform: EpisodesPlatform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(answer(ANSWER))
    async with (
        caller(platform, "ada", Role.TOOL_OWNER) as ada,
        caller(platform, "bob", Role.DEVELOPER) as bob,
    ):
        episode = await start(ada, TASK)
        for reader in (ada, bob):
            assert (await finished(reader, episode.id)).answer == ANSWER
            request = pb.GetEpisodeRequest(episode_id=episode.id)
            got = (await reader.GetEpisode(request)).episode
            listed = (await reader.ListEpisodes(pb.ListEpisodesRequest())).episodes
            for seen in (got, *listed):
                assert (seen.spec.task, seen.answer) == (TASK, ANSWER)
                assert not seen.content_withheld


async def test_what_a_cancel_returns_has_no_content(platform: EpisodesPlatform) -> None:
    platform.neighbours.registry.toolset = make_toolset("pay", needs_approval=True)
    platform.neighbours.orchestrator.decide = in_turns(calls(call("pay")), answer("paid"))
    async with (
        caller(platform, "ada", Role.TOOL_OWNER) as ada,
        caller(platform, "eve", Role.TOOL_OWNER) as eve,
    ):
        episode = await start(ada, TASK)
        reply = await eve.CancelEpisode(pb.CancelEpisodeRequest(episode_id=episode.id))
        await finished(ada, episode.id)
    assert TASK not in str(reply.episode)
    assert reply.episode.content_withheld


async def test_the_same_start_by_another_subject_reveals_nothing(
    platform: EpisodesPlatform,
) -> None:
    platform.neighbours.orchestrator.decide = in_turns(answer(ANSWER))
    async with (
        caller(platform, "ada", Role.TOOL_OWNER) as ada,
        caller(platform, "eve", Role.TOOL_OWNER) as eve,
    ):
        episode = await start(ada, TASK)
        await finished(ada, episode.id)
        for guess in (TASK, "how well is the patient?"):
            spec = episode_pb2.EpisodeSpec(task=guess)
            request = pb.StartEpisodeRequest(episode_id=episode.id, spec=spec)
            await rejected(eve.StartEpisode(request))


async def test_another_subjects_calls_are_not_answered(platform: EpisodesPlatform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(answer(ANSWER))
    async with (
        caller(platform, "ada", Role.TOOL_OWNER) as ada,
        caller(platform, "eve", Role.TOOL_OWNER) as eve,
    ):
        episode = await start(ada, TASK)
        request = pb.AnswerToolCallsRequest(episode_id=episode.id, turn=1)
        await rejected(eve.AnswerToolCalls(request))
        await finished(ada, episode.id)


async def test_an_approver_reads_an_episode_while_a_call_of_it_waits(
    platform: EpisodesPlatform,
) -> None:
    platform.neighbours.registry.toolset = make_toolset("pay", needs_approval=True)
    platform.neighbours.orchestrator.decide = in_turns(calls(call("pay")), answer(ANSWER))
    async with (
        caller(platform, "ada", Role.TOOL_OWNER) as ada,
        caller(platform, "boss", Role.APPROVER) as boss,
        caller(platform, "eve", Role.TOOL_OWNER) as eve,
    ):
        episode = await start(ada, TASK)
        async for response in ada.WatchEpisode(pb.WatchEpisodeRequest(episode_id=episode.id)):
            if response.event.HasField("approval_requested"):
                break
        get = pb.GetEpisodeRequest(episode_id=episode.id)
        assert (await eve.GetEpisode(get)).episode.content_withheld
        await rejected(first_event(eve, episode.id))
        assert (await boss.GetEpisode(get)).episode.spec.task == TASK
        watched = boss.WatchEpisode(pb.WatchEpisodeRequest(episode_id=episode.id))
        seen = await _read(watched, "approval_requested")
        assert seen[-1].approval_requested.call.tool_name == "pay"
        decision = pb.ApproveToolCallRequest(episode_id=episode.id, turn=1, approved=True)
        assert (await boss.ApproveToolCall(decision)).episode.spec.task == TASK
        # What the call gives is none of the approver's business.
        await rejected(_read(watched, "finished"))
        assert (await finished(ada, episode.id)).answer == ANSWER
        assert (await boss.GetEpisode(get)).episode.content_withheld
        await rejected(first_event(boss, episode.id))


async def _read(watched: Any, until: str) -> list[episode_pb2.EpisodeEvent]:
    seen = []
    async for response in watched:
        seen.append(response.event)
        if response.event.HasField(until):
            break
    return seen


async def test_direct_calls_are_read_by_their_callers_and_with_the_scope(
    platform: EpisodesPlatform,
) -> None:
    platform.neighbours.registry.toolset = make_toolset("search")
    spec = calls_pb.DirectCallSpec(tool_name="search", arguments_json='{"q": "the patient"}')
    started = calls_pb.StartDirectCallRequest(call_id=new_id(), spec=spec)
    get = calls_pb.GetDirectCallRequest(call_id=started.call_id, wait=True)
    async with (
        channel_of(platform, "ada", Role.TOOL_OWNER) as ada,
        channel_of(platform, "eve", Role.TOOL_OWNER) as eve,
        channel_of(platform, "bob", Role.DEVELOPER) as bob,
    ):
        await DirectCallServiceStub(ada).StartDirectCall(started)
        while not (await DirectCallServiceStub(ada).GetDirectCall(get)).call.ended:
            pass
        assert (await DirectCallServiceStub(bob).GetDirectCall(get)).call.spec == spec
        await rejected(DirectCallServiceStub(eve).GetDirectCall(get))
        await rejected(DirectCallServiceStub(eve).StartDirectCall(started))
