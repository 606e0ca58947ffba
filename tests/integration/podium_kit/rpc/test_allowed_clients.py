from pathlib import Path

import grpc
import pytest

from callers import make_identity
from certificates import Authority
from integration.podium_kit.rpc.policies_under_test import PoliciesUnderTest, policy_named
from podium.episodes.v1 import episode_service_pb2 as episode_pb
from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceStub
from podium.registry.v1 import policy_service_pb2 as pb
from podium.registry.v1.policy_service_pb2_grpc import PolicyServiceStub
from podium_kit.rpc.channel import open_channel
from podium_kit.rpc.settings import TlsFiles
from podium_kit.rpc.status import domain_error_from

GATEWAY = "spiffe://cluster.local/ns/podium/sa/podium-gateway"
WORKER = "podium-episode-worker.podium.svc.cluster.local"
SANDBOX = "spiffe://cluster.local/ns/podium/sa/podium-sandbox"
ALLOWED = frozenset({GATEWAY, WORKER})


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


async def named(_: pb.GetPolicyRequest) -> pb.GetPolicyResponse:
    return policy_named("reached")


def channel_of(server: PoliciesUnderTest, tls: TlsFiles) -> grpc.aio.Channel:
    return open_channel(f"127.0.0.1:{server.port}", server.keys.signer(), make_identity(), tls)


async def test_callers_on_the_list_are_served_by_either_kind_of_name(
    server: PoliciesUnderTest, authority: Authority
) -> None:
    files = authority.issue("server")
    async with server.serving(named, tls=files, allowed_clients=ALLOWED):
        for names in ((GATEWAY,), (WORKER, "localhost"), (SANDBOX, GATEWAY)):
            async with channel_of(server, authority.issue("client", names)) as channel:
                reply = await PolicyServiceStub(channel).GetPolicy(pb.GetPolicyRequest())
                assert reply.policy.spec.name == "reached"


async def test_a_valid_certificate_off_the_list_is_rejected_with_cause_and_fix(
    server: PoliciesUnderTest, authority: Authority
) -> None:
    files, client = authority.issue("server"), authority.issue("client", (SANDBOX,))
    async with (
        server.serving(named, tls=files, allowed_clients=ALLOWED),
        channel_of(server, client) as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as unary:
            await PolicyServiceStub(channel).GetPolicy(pb.GetPolicyRequest())
        watch = EpisodeServiceStub(channel).WatchEpisode(episode_pb.WatchEpisodeRequest())
        with pytest.raises(grpc.aio.AioRpcError) as stream:
            await watch.read()
    for rejection in (unary.value, stream.value):
        assert rejection.code() is grpc.StatusCode.PERMISSION_DENIED
        error = domain_error_from(rejection)
        assert error.reason == "CLIENT_NOT_ALLOWED"
        assert SANDBOX in error.message
        assert "allowed_clients" in error.message
    assert server.episodes.open_watches == 0


async def test_names_are_compared_whole_and_the_subject_is_ignored(
    server: PoliciesUnderTest, authority: Authority
) -> None:
    files = authority.issue("server")
    pretenders = [(f"{GATEWAY}-two",), (GATEWAY.removesuffix("y"),), ("localhost",)]
    async with server.serving(named, tls=files, allowed_clients=ALLOWED):
        for names in pretenders:
            # WORKER is the common name here, which no authority vouches for.
            async with channel_of(server, authority.issue(WORKER, names)) as channel:
                with pytest.raises(grpc.aio.AioRpcError, match="may not call"):
                    await PolicyServiceStub(channel).GetPolicy(pb.GetPolicyRequest())


async def test_an_empty_list_allows_nobody(server: PoliciesUnderTest, authority: Authority) -> None:
    files, client = authority.issue("server"), authority.issue("client", (GATEWAY,))
    async with (
        server.serving(named, tls=files, allowed_clients=frozenset()),
        channel_of(server, client) as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError, match="may not call"):
            await PolicyServiceStub(channel).GetPolicy(pb.GetPolicyRequest())
