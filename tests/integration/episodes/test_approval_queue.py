from typing import TYPE_CHECKING

import grpc
import pytest

from callers import client_channel, make_identity
from integration.episodes.neighbours import answer, call, calls, in_turns, make_toolset
from integration.episodes.platform_under_test import EpisodesPlatform, finished, start
from integration.episodes.test_approvals import until_asked
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceStub
from podium_kit.rpc.identity import Scope

if TYPE_CHECKING:
    from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceAsyncStub


async def listed(client: "EpisodeServiceAsyncStub", size: int = 0) -> list[pb.WaitingApproval]:
    found: list[pb.WaitingApproval] = []
    token = ""
    while True:
        request = pb.ListApprovalsRequest(page_size=size, page_token=token)
        page = await client.ListApprovals(request)
        found += page.approvals
        assert len(page.approvals) <= (size or 50)
        if not (token := page.next_page_token):
            return found


def places(found: list[pb.WaitingApproval]) -> list[tuple[str, int, int]]:
    return [(each.episode_id, each.turn, each.call.index) for each in found]


async def test_the_queue_holds_what_waits_until_it_is_decided(platform: EpisodesPlatform) -> None:
    platform.neighbours.registry.toolset = make_toolset("pay", needs_approval=True)
    two = calls(call("pay", '{"usd": 1}'), call("pay", '{"usd": 2}', 1))
    platform.neighbours.orchestrator.decide = in_turns(two, answer("paid"))
    async with platform.client() as ada, platform.client(subject="boss") as boss:
        first, second = [await start(ada) for _ in range(2)]
        for episode in (first, second):
            await until_asked(ada, episode.id)
        waiting = await listed(boss, size=1)
        assert places(waiting) == [(one.id, 1, n) for one in (first, second) for n in (0, 1)]
        assert waiting == await listed(boss)
        assert [each.call.arguments_json for each in waiting[:2]] == ['{"usd": 1}', '{"usd": 2}']
        assert {each.started_by for each in waiting} == {"ada"}
        assert all(
            each.approvable and each.expire_time.seconds > each.create_time.seconds
            for each in waiting
        )
        assert not any(each.approvable for each in await listed(ada))
        # Another tenant has a queue of its own.
        async with platform.client(tenant="umbrella") as stranger:
            assert await listed(stranger) == []
        # The first call is decided; its turn still waits for the other one.
        for index, approved in ((1, True), (0, False)):
            decision = pb.ApproveToolCallRequest(
                episode_id=first.id, turn=1, call_index=index, approved=approved
            )
            await boss.ApproveToolCall(decision)
            left = [(first.id, 1, 0)] * index + [(second.id, 1, 0), (second.id, 1, 1)]
            assert places(await listed(boss)) == left
        await finished(ada, first.id)
        await ada.CancelEpisode(pb.CancelEpisodeRequest(episode_id=second.id))
        await finished(ada, second.id)
        assert await listed(boss) == []


async def test_the_queue_is_for_approvers(platform: EpisodesPlatform) -> None:
    for scope, admitted in ((Scope.EPISODES_RUN, False), (Scope.CALLS_APPROVE, True)):
        identity = make_identity(platform.tenant, "dan", (scope,))
        async with client_channel(platform.port, identity, platform.keys) as channel:
            asked = EpisodeServiceStub(channel).ListApprovals(pb.ListApprovalsRequest())
            if admitted:
                await asked
                continue
            with pytest.raises(grpc.aio.AioRpcError) as rejected:
                await asked
            assert rejected.value.code() is grpc.StatusCode.PERMISSION_DENIED
