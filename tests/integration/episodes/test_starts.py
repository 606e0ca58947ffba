import asyncio

import grpc
import psutil
import pytest

from integration.episodes.platform_under_test import EpisodesPlatform, finished, new_id, start
from podium.common.v1 import money_pb2
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium_kit.embedded.temporal import EmbeddedTemporal

CREATE_BUDGET = "BudgetService/CreateBudget"


def start_request() -> pb.StartEpisodeRequest:
    spec = episode_pb2.EpisodeSpec(
        task="what is 6 x 7?", budget=money_pb2.Money(currency_code="USD", amount="1")
    )
    return pb.StartEpisodeRequest(episode_id=new_id(), spec=spec, running_limit=1)


async def test_a_start_whose_budget_the_ledger_does_not_take_leaves_no_episode(
    platform: EpisodesPlatform,
) -> None:
    outage = platform.tenants.fail(platform.tenant, CREATE_BUDGET)
    request = start_request()
    async with platform.client() as client:
        with pytest.raises(grpc.aio.AioRpcError) as stalled:
            await client.StartEpisode(request, timeout=1)
        assert stalled.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        outage.end()
        # Only what is stored could run later.
        assert not (await client.ListEpisodes(pb.ListEpisodesRequest())).episodes
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await client.GetEpisode(pb.GetEpisodeRequest(episode_id=request.episode_id))
        assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
        assert not platform.neighbours.orchestrator.requests
        # The same request again runs once, within its budget.
        await client.StartEpisode(request)
        ended = await finished(client, request.episode_id)
    assert ended.stop_reason == episode_pb2.STOP_REASON_ANSWERED
    # Creating a budget again under its id changes nothing.
    assert {one.scope_id for one in platform.neighbours.ledger.budgets} == {request.episode_id}


async def test_a_start_that_would_be_answered_too_late_leaves_no_episode(
    platform: EpisodesPlatform,
) -> None:
    request = start_request()
    async with platform.client() as client:
        with pytest.raises(grpc.aio.AioRpcError) as late:
            await client.StartEpisode(request, timeout=0.4)
        assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert not (await client.ListEpisodes(pb.ListEpisodesRequest())).episodes


async def test_a_rejected_start_leaves_no_budget(platform: EpisodesPlatform) -> None:
    platform.neighbours.orchestrator.delay_s = 600.0
    first, second = start_request(), start_request()
    async with platform.client() as client:
        await client.StartEpisode(first)
        with pytest.raises(grpc.aio.AioRpcError) as rejected:
            await client.StartEpisode(second)
        assert rejected.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        # Neither does one that names an episode of another spec.
        second.episode_id = first.episode_id
        second.spec.budget.amount = "1000000"
        with pytest.raises(grpc.aio.AioRpcError) as conflict:
            await client.StartEpisode(second)
        assert conflict.value.code() is grpc.StatusCode.ALREADY_EXISTS
        await client.CancelEpisode(pb.CancelEpisodeRequest(episode_id=first.episode_id))
        await finished(client, first.episode_id)
    assert [one.scope_id for one in platform.neighbours.ledger.budgets] == [first.episode_id]


@pytest.mark.chaos
async def test_an_episode_starts_runs_and_ends_once_while_temporal_stalls(
    own_platform: EpisodesPlatform, temporal: EmbeddedTemporal
) -> None:
    """The client is told that the episode exists, so it runs; told thrice, it is one episode."""
    request, process = start_request(), psutil.Process(temporal.process.pid)
    async with own_platform.client() as client:
        # A worker that starts connects to Temporal before all else.
        await finished(client, (await start(client)).id)
        process.suspend()
        try:
            replies = [await client.StartEpisode(request) for _ in range(3)]
            async with asyncio.timeout(60):
                ended = await finished(client, request.episode_id)
        finally:
            process.resume()
    assert ended.stop_reason == episode_pb2.STOP_REASON_ANSWERED
    assert {reply.episode.id for reply in replies} == {request.episode_id}
    assert len(own_platform.neighbours.orchestrator.requests) == 2
