import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from callers import make_identity
from certificates import Authority
from integration.podium_kit.rpc.policies_under_test import PoliciesUnderTest, policy_named
from podium.registry.v1 import policy_service_pb2 as pb
from podium.registry.v1.policy_service_pb2_grpc import PolicyServiceStub
from podium_kit.embedded.ports import free_port
from podium_kit.rpc.channel import open_channel
from podium_kit.rpc.settings import TlsFiles

REQUEST = pb.GetPolicyRequest()
DEADLINE_S = 5.0


@pytest.fixture
def authority(tmp_path: Path) -> Iterator[Authority]:
    yield Authority(tmp_path, "ours")


async def named(_: pb.GetPolicyRequest) -> pb.GetPolicyResponse:
    return policy_named("reached")


async def ask(server: PoliciesUnderTest, tls: TlsFiles | None) -> str:
    """The policy's name as a caller with these files gets it."""
    target, signer = f"127.0.0.1:{server.port}", server.keys.signer()
    async with open_channel(target, signer, make_identity(), tls) as channel:
        reply = await PolicyServiceStub(channel).GetPolicy(REQUEST, timeout=DEADLINE_S)
    return str(reply.policy.spec.name)


async def test_both_sides_of_one_authority_speak(
    server: PoliciesUnderTest, authority: Authority
) -> None:
    async with server.serving(named, tls=authority.issue("server")):
        assert await ask(server, authority.issue("client")) == "reached"


async def test_a_caller_without_a_certificate_of_our_ca_never_reaches_the_handler(
    server: PoliciesUnderTest, authority: Authority, tmp_path: Path
) -> None:
    stranger, ours = Authority(tmp_path, "theirs"), authority.issue("client")
    foreign = stranger.issue("client").model_copy(update={"authority": ours.authority})
    expired = authority.issue("late", lasting=timedelta(hours=-1))
    async with server.serving(named, tls=authority.issue("server")):
        answers = [ask(server, tls) for tls in (None, foreign, expired)]
        for answer in await asyncio.gather(*answers, return_exceptions=True):
            assert isinstance(answer, grpc.aio.AioRpcError), answer
            assert answer.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_server_of_another_authority_is_not_spoken_to(
    server: PoliciesUnderTest, authority: Authority, tmp_path: Path
) -> None:
    impostor = Authority(tmp_path, "theirs").issue("server")
    ours = authority.issue("client")
    # The impostor trusts our callers; they must not trust it.
    async with server.serving(named, tls=impostor.model_copy(update={"authority": ours.authority})):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await ask(server, ours)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_probes_are_answered_in_plaintext_on_their_own_port(
    server: PoliciesUnderTest, authority: Authority
) -> None:
    port = free_port()
    async with (
        server.serving(named, tls=authority.issue("server"), health_port=port),
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        request = health_pb2.HealthCheckRequest(service="liveness")
        answer = await health_pb2_grpc.HealthStub(channel).Check(request, timeout=DEADLINE_S)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await PolicyServiceStub(channel).GetPolicy(REQUEST, timeout=DEADLINE_S)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
