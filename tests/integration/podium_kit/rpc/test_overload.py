import asyncio

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub

from callers import client_channel, make_identity
from integration.podium_kit.rpc.policies_under_test import PoliciesUnderTest, policy_named
from podium.episodes.v1 import episode_service_pb2 as episode_pb
from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceStub
from podium.registry.v1 import policy_service_pb2 as pb
from podium_kit.rpc.errors import Unavailable
from podium_kit.rpc.shedding import RETRY_AFTER_S
from podium_kit.rpc.status import domain_error_from

REQUEST = pb.GetPolicyRequest(name="frugal")
OPEN_MAX = 3
FAILING_CALLS = 600


class Waiting:
    def __init__(self) -> None:
        self.calls = 0
        self.go_on = asyncio.Event()

    async def __call__(self, request: pb.GetPolicyRequest) -> pb.GetPolicyResponse:
        self.calls += 1
        await self.go_on.wait()
        return policy_named(request.name)


async def test_a_call_too_many_is_turned_away_at_once_and_told_when_to_come_again(
    server: PoliciesUnderTest,
) -> None:
    handler = Waiting()
    async with server.serving(handler, open_calls_max=OPEN_MAX) as policies:
        running = [asyncio.ensure_future(policies.GetPolicy(REQUEST)) for _ in range(OPEN_MAX)]
        await _until_open(handler, OPEN_MAX)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await policies.GetPolicy(REQUEST)
        async with server.plain_channel() as channel:
            health = await HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        # The channel did not try by itself what was turned away: nothing else ran.
        assert handler.calls == OPEN_MAX
        handler.go_on.set()
        answers = await asyncio.gather(*running)
        assert (await policies.GetPolicy(REQUEST)).policy.spec.name == "frugal"
    error = domain_error_from(caught.value)
    assert isinstance(error, Unavailable)
    assert (error.reason, error.retry_after_s) == ("OVERLOADED", RETRY_AFTER_S)
    assert health.status == health_pb2.HealthCheckResponse.SERVING
    assert len(answers) == OPEN_MAX


async def test_watchers_do_not_shut_out_calls_and_have_a_limit_of_their_own(
    server: PoliciesUnderTest,
) -> None:
    handler = Waiting()
    handler.go_on.set()
    async with (
        server.serving(handler, open_calls_max=OPEN_MAX) as policies,
        client_channel(server.port, make_identity(), server.keys) as channel,
    ):
        episodes = EpisodeServiceStub(channel)
        watches = [episodes.WatchEpisode(episode_pb.WatchEpisodeRequest()) for _ in range(OPEN_MAX)]
        for watch in watches:
            await watch.read()
        await policies.GetPolicy(REQUEST)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await episodes.WatchEpisode(episode_pb.WatchEpisodeRequest()).read()
        for watch in watches:
            watch.cancel()
        while server.episodes.open_watches:
            await asyncio.sleep(0.01)
        # The places are free again.
        again = episodes.WatchEpisode(episode_pb.WatchEpisodeRequest())
        await again.read()
        again.cancel()
    assert domain_error_from(caught.value).reason == "OVERLOADED"


async def test_retries_end_when_their_budget_is_used_up(server: PoliciesUnderTest) -> None:
    asked = 0

    async def fail(_: pb.GetPolicyRequest) -> pb.GetPolicyResponse:
        nonlocal asked
        asked += 1
        raise Unavailable("down")

    async with server.serving(fail) as policies:
        # On a busy machine the last of so many waits for longer than a call usually may.
        calls = (policies.GetPolicy(REQUEST, timeout=600) for _ in range(FAILING_CALLS))
        results = await asyncio.gather(*calls, return_exceptions=True)
        used = asked
        with pytest.raises(grpc.aio.AioRpcError):
            await policies.GetPolicy(REQUEST)
    assert all(isinstance(result, grpc.aio.AioRpcError) for result in results)
    # Every call would have been made four times.
    assert FAILING_CALLS <= used < 2 * FAILING_CALLS
    assert asked == used + 1


async def _until_open(handler: Waiting, calls: int) -> None:
    async with asyncio.timeout(60):
        while handler.calls < calls:
            await asyncio.sleep(0.01)
