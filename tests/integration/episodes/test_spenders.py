from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc
import pytest

from callers import client_channel, make_identity
from integration.episodes.neighbours import answer, call, calls, in_turns, make_toolset
from integration.episodes.platform_under_test import EpisodesPlatform, finished, new_id, start
from podium.episodes.v1 import direct_call_service_pb2 as calls_pb
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1.direct_call_service_pb2_grpc import DirectCallServiceStub
from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceStub
from podium_kit.rpc.identity import Scope

if TYPE_CHECKING:
    from podium.episodes.v1.direct_call_service_pb2_grpc import DirectCallServiceAsyncStub
    from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceAsyncStub

DEVELOPER = (Scope.EPISODES_RUN, Scope.TRAJECTORIES_READ)
MEMBER = ("team:search", "team:ads", "agent:bot", "role:developer")


@asynccontextmanager
async def stubs(
    platform: EpisodesPlatform, groups: Iterable[str] = MEMBER
) -> AsyncIterator[tuple["EpisodeServiceAsyncStub", "DirectCallServiceAsyncStub"]]:
    identity = make_identity(platform.tenant, "mallory", DEVELOPER, groups)
    async with client_channel(platform.port, identity, platform.keys) as channel:
        yield EpisodeServiceStub(channel), DirectCallServiceStub(channel)


@pytest.mark.parametrize(
    ("labels", "reported"),
    [
        ({}, ("ads", "bot")),
        ({"team": "search"}, ("search", "bot")),
        ({"agent": "bot", "team": ""}, ("ads", "bot")),
    ],
)
async def test_all_teams_and_agents_of_a_key_are_charged(
    platform: EpisodesPlatform, labels: dict[str, str], reported: tuple[str, str]
) -> None:
    platform.neighbours.orchestrator.decide = in_turns(calls(call("search")), answer("x"))
    async with stubs(platform) as (episodes, direct):
        await finished(episodes, (await start(episodes, labels=labels)).id)
        platform.neighbours.registry.toolset = make_toolset("search")
        spec = calls_pb.DirectCallSpec(tool_name="search", arguments_json="{}", labels=labels)
        call_id = new_id()
        await direct.StartDirectCall(calls_pb.StartDirectCallRequest(call_id=call_id, spec=spec))
        request = calls_pb.GetDirectCallRequest(call_id=call_id, wait=True)
        while not (await direct.GetDirectCall(request)).call.ended:
            pass
    asked = list(platform.neighbours.ledger.holds.values())
    assert len(asked) == 4
    for reserve in asked:
        assert (reserve.subject.team, reserve.subject.agent) == reported
        assert reserve.subject.user == "mallory"
        assert (list(reserve.teams), list(reserve.agents)) == (["ads", "search"], ["bot"])


@pytest.mark.parametrize(
    ("groups", "labels"),
    [
        (MEMBER, {"team": "research"}),
        (MEMBER, {"agent": "other"}),
        ((), {"team": "research"}),
        (("agent:research", "role:research"), {"team": "research"}),
        (("team:search",), {"team": "Search"}),
        (("team:search",), {"team": "search "}),
    ],
)
async def test_a_label_of_another_team_or_agent_is_rejected(
    platform: EpisodesPlatform, groups: Iterable[str], labels: dict[str, str]
) -> None:
    spec = calls_pb.DirectCallSpec(tool_name="search", arguments_json="{}", labels=labels)
    request = calls_pb.StartDirectCallRequest(call_id=new_id(), spec=spec)
    async with stubs(platform, groups) as (episodes, direct):
        for starting in (start(episodes, labels=labels), direct.StartDirectCall(request)):
            with pytest.raises(grpc.aio.AioRpcError, match="and your key or token has") as denied:
                await starting
            assert denied.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert not platform.neighbours.ledger.holds


async def test_an_id_of_another_tenant_is_not_found_when_it_is_started(
    platform: EpisodesPlatform,
) -> None:
    other = platform.for_new_tenant()
    async with platform.client() as ours, other.client() as theirs:
        episode = await start(ours)
        spec = (await ours.GetEpisode(pb.GetEpisodeRequest(episode_id=episode.id))).episode.spec
        for task in (spec.task, "another task"):
            spec.task = task
            with pytest.raises(grpc.aio.AioRpcError) as unknown:
                await theirs.StartEpisode(pb.StartEpisodeRequest(episode_id=episode.id, spec=spec))
            with pytest.raises(grpc.aio.AioRpcError) as absent:
                await theirs.GetEpisode(pb.GetEpisodeRequest(episode_id=episode.id))
            assert unknown.value.code() is absent.value.code() is grpc.StatusCode.NOT_FOUND
            assert unknown.value.details() == absent.value.details()
        await finished(ours, episode.id)
