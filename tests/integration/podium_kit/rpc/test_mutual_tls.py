"""Mutual TLS between pods: both sides prove who they are, and certificates are renewed."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from grpc_health.v1 import health_pb2, health_pb2_grpc

from callers import make_identity
from certificates import Authority
from integration.podium_kit.rpc.policies_under_test import PoliciesUnderTest, policy_named
from podium.episodes.v1 import episode_service_pb2 as episode_pb
from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceStub
from podium.registry.v1 import policy_service_pb2 as pb
from podium.registry.v1.policy_service_pb2_grpc import PolicyServiceStub
from podium_kit.embedded.ports import free_port
from podium_kit.rpc.channel import open_channel
from podium_kit.rpc.settings import TlsFiles
from podium_kit.rpc.status import domain_error_from
from podium_kit.rpc.tls import TlsUnusable

REQUEST = pb.GetPolicyRequest()
DEADLINE_S = 5.0


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


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


GATEWAY = "spiffe://cluster.local/ns/podium/sa/podium-gateway"
WORKER = "podium-episode-worker.podium.svc.cluster.local"
SANDBOX = "spiffe://cluster.local/ns/podium/sa/podium-sandbox"
ALLOWED = frozenset({GATEWAY, WORKER})


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


WATCH = episode_pb.WatchEpisodeRequest()


@asynccontextmanager
async def calling(server: PoliciesUnderTest, tls: TlsFiles) -> AsyncIterator[grpc.aio.Channel]:
    target, signer = f"127.0.0.1:{server.port}", server.keys.signer()
    async with open_channel(target, signer, make_identity(), tls) as channel:
        yield channel


def call_over(channel: grpc.aio.Channel) -> Awaitable[pb.GetPolicyResponse]:
    return PolicyServiceStub(channel).GetPolicy(pb.GetPolicyRequest(), timeout=DEADLINE_S)


async def shown_by(server: PoliciesUnderTest, client: TlsFiles) -> int:
    """Serial number of the certificate that a new connection sees."""
    context = ssl.create_default_context(cafile=str(client.authority))
    context.load_cert_chain(client.certificate, client.private_key)
    context.set_alpn_protocols(["h2"])
    _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(shown).serial_number


def serial(files: TlsFiles) -> int:
    return x509.load_pem_x509_certificate(files.certificate.read_bytes()).serial_number


async def test_a_server_presents_its_renewed_certificate_and_running_streams_continue(
    server: PoliciesUnderTest, authority: Authority
) -> None:
    files, client = authority.issue("server"), authority.issue("client")
    async with server.serving(named, tls=files), calling(server, client) as channel:
        watch = EpisodeServiceStub(channel).WatchEpisode(WATCH)
        assert isinstance(await watch.read(), episode_pb.WatchEpisodeResponse)
        before = serial(files)
        assert await shown_by(server, client) == before
        authority.issue("server")
        assert await shown_by(server, client) == serial(files) != before
        assert isinstance(await watch.read(), episode_pb.WatchEpisodeResponse)
        watch.cancel()


async def test_a_client_goes_on_under_its_renewed_certificate(
    server: PoliciesUnderTest, authority: Authority
) -> None:
    spiffe = "spiffe://cluster.local/ns/podium/sa/podium-"
    client = authority.issue("client", (f"{spiffe}old",))
    files, allowed = authority.issue("server"), frozenset({f"{spiffe}new"})
    async with (
        server.serving(named, tls=files, allowed_clients=allowed),
        calling(server, client) as channel,
    ):
        stub = PolicyServiceStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as rejected:
            await stub.GetPolicy(pb.GetPolicyRequest(), timeout=DEADLINE_S)
        authority.issue("client", (f"{spiffe}new",))
        # The very same stub: callers keep theirs for the life of the process.
        reply = await stub.GetPolicy(pb.GetPolicyRequest(), timeout=DEADLINE_S)
    assert rejected.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert reply.policy.spec.name == "reached"


async def test_streams_of_a_client_continue_when_its_certificate_is_renewed(
    server: PoliciesUnderTest, authority: Authority
) -> None:
    client = authority.issue("client")
    async with (
        server.serving(named, tls=authority.issue("server")),
        calling(server, client) as channel,
    ):
        watch = EpisodeServiceStub(channel).WatchEpisode(WATCH)
        assert isinstance(await watch.read(), episode_pb.WatchEpisodeResponse)
        authority.issue("client")
        assert (await call_over(channel)).policy.spec.name == "reached"
        assert isinstance(await watch.read(), episode_pb.WatchEpisodeResponse)
        watch.cancel()


async def test_both_sides_move_to_a_new_authority(
    server: PoliciesUnderTest, tmp_path: Path, authority: Authority
) -> None:
    files, client = authority.issue("server"), authority.issue("client")
    stale = authority.issue("stale")
    async with server.serving(named, tls=files), calling(server, client) as channel:
        await call_over(channel)
        successor = Authority(tmp_path, "ours")
        successor.issue("server")
        successor.issue("client")
        assert (await call_over(channel)).policy.spec.name == "reached"
        # It trusts the new authority; the server no longer trusts the old one.
        stale = stale.model_copy(update={"authority": client.authority})
        async with calling(server, stale) as left_behind:
            with pytest.raises(grpc.aio.AioRpcError) as rejected:
                await call_over(left_behind)
    assert rejected.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_renewal_half_written_changes_nothing(
    server: PoliciesUnderTest, authority: Authority
) -> None:
    files, client = authority.issue("server"), authority.issue("client")
    async with server.serving(named, tls=files):
        before = serial(files)
        # A key that is not the certificate's: someone writes one file after the other.
        authority.issue("other").private_key.replace(files.private_key)
        assert await shown_by(server, client) == before
        files.certificate.unlink()
        assert await shown_by(server, client) == before
        authority.issue("server")
        assert await shown_by(server, client) == serial(files) != before


async def test_an_expired_certificate_is_fixed_by_its_renewal(
    server: PoliciesUnderTest, authority: Authority
) -> None:
    late = authority.issue("client", lasting=timedelta(hours=-1))
    async with (
        server.serving(named, tls=authority.issue("server")),
        calling(server, late) as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError):
            await call_over(channel)
        authority.issue("client")
        assert (await call_over(channel)).policy.spec.name == "reached"


async def test_files_that_do_not_belong_together_are_named_at_the_start(
    server: PoliciesUnderTest, authority: Authority
) -> None:
    files = authority.issue("server")
    mixed = files.model_copy(update={"private_key": authority.issue("other").private_key})
    with pytest.raises(TlsUnusable, match=r"ours-other.key.*not that of the certificate"):
        async with server.serving(named, tls=mixed):
            pass
