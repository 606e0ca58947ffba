"""Access to every RPC, by scope and caller."""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from callers import client_channel, make_identity, make_key_pair, write_verify_keys
from integration.podium_kit.rpc.policies_under_test import (
    EPISODE_SERVICE,
    POLICY_SERVICE,
    PoliciesUnderTest,
    policy_named,
)
from podium.episodes.v1 import episode_service_pb2 as episode_pb
from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceStub
from podium.registry.v1 import policy_service_pb2 as pb
from podium.registry.v1.policy_service_pb2_grpc import PolicyServiceStub
from podium_kit.rpc.access import access_of
from podium_kit.rpc.channel import open_channel
from podium_kit.rpc.errors import DependencyAway, Unauthenticated
from podium_kit.rpc.identity import Scope, acting_as, current_identity, require_scope
from podium_kit.rpc.server import Service, running_server
from podium_kit.rpc.settings import ServerSettings
from podium_kit.rpc.status import answered
from unit.house.test_rpc_access import contract_methods, method_path

OK = grpc.StatusCode.OK
# Bounds come after access, and an empty request lacks fields that some methods need.
PASSED = (OK, grpc.StatusCode.INVALID_ARGUMENT)
REJECTED = (grpc.StatusCode.PERMISSION_DENIED,)


def answering(methods: Iterable[MethodDescriptor]) -> list[Service]:
    """Every service of the contracts; its methods answer with nothing in it."""
    handlers: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for method in methods:
        handlers[method.containing_service.full_name][method.name] = _handler(method)

    def add(name: str, server: grpc.aio.Server) -> None:
        generic = grpc.method_handlers_generic_handler(name, handlers[name])
        server.add_generic_rpc_handlers((generic,))

    return [Service(add, name, name) for name in handlers]


def _handler(method: MethodDescriptor) -> grpc.RpcMethodHandler:  # type: ignore[type-arg]
    reply = GetMessageClass(method.output_type)()

    async def answer(_request: Any, _context: Any) -> Any:
        return reply

    async def answers(_request: Any, _context: Any) -> AsyncIterator[Any]:
        yield reply

    make, behaviour = (
        (grpc.unary_stream_rpc_method_handler, answers)
        if method.server_streaming
        else (grpc.unary_unary_rpc_method_handler, answer)
    )
    return make(
        behaviour,
        request_deserializer=GetMessageClass(method.input_type).FromString,
        response_serializer=type(reply).SerializeToString,
    )


async def status(channel: grpc.aio.Channel, method: MethodDescriptor) -> grpc.StatusCode:
    path = f"/{method_path(method)}"
    try:
        if method.server_streaming:
            async for _ in channel.unary_stream(path, bytes, bytes)(b""):
                pass
        else:
            await channel.unary_unary(path, bytes, bytes)(b"")
    except grpc.aio.AioRpcError as error:
        return error.code()
    return OK


async def test_an_rpc_lets_the_scopes_of_its_contract_pass_and_no_others(tmp_path: Path) -> None:
    methods, keys = contract_methods(), make_key_pair()
    verify = write_verify_keys(tmp_path / "keys.json", [keys])
    settings = ServerSettings(port=0, verify_keys_file=verify, drain_grace_s=0)
    wrong = []
    async with running_server(settings, answering(methods), {}) as port:
        for held in (None, *Scope):
            identity = make_identity(scopes=[held] if held else [])
            async with client_channel(port, identity, keys) as channel:
                for method in methods:
                    wanted = access_of(method_path(method)).scopes
                    passes = not wanted or any(identity.may(scope) for scope in wanted)
                    found = await status(channel, method)
                    if found not in (PASSED if passes else REJECTED):
                        wrong.append((held, method_path(method), found))
    assert not wrong


REQUEST = pb.GetPolicyRequest()


async def who_calls(_: pb.GetPolicyRequest) -> pb.GetPolicyResponse:
    caller = current_identity()
    return policy_named(f"{caller.subject} of {caller.tenant}")


@pytest.mark.parametrize(
    "metadata",
    [
        (),
        (("authorization", "Bearer not-a-token"),),
        (("authorization", "Bearer "),),
        (("authorization", "Basic YWRhOmFkYQ=="),),
        (("authorization", f"Bearer {make_key_pair().signer().sign(make_identity())}"),),
    ],
)
async def test_call_without_a_good_token_never_reaches_the_handler(
    server: PoliciesUnderTest, metadata: tuple[tuple[str, str], ...]
) -> None:
    reached = []

    async def answer(request: pb.GetPolicyRequest) -> pb.GetPolicyResponse:
        reached.append(request)
        return pb.GetPolicyResponse()

    async with server.serving(answer), server.plain_channel() as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await PolicyServiceStub(channel).GetPolicy(REQUEST, metadata=metadata)
        watch = EpisodeServiceStub(channel).WatchEpisode(
            episode_pb.WatchEpisodeRequest(), metadata=metadata
        )
        with pytest.raises(grpc.aio.AioRpcError) as caught_watching:
            await watch.read()
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert caught_watching.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert (reached, server.episodes.open_watches) == ([], 0)


async def test_a_service_that_does_not_know_our_key_yet_is_away_for_its_callers(
    server: PoliciesUnderTest,
) -> None:
    new_key = make_key_pair().signer()
    async with (
        server.serving(who_calls),
        open_channel(f"127.0.0.1:{server.port}", new_key, make_identity()) as channel,
    ):
        with pytest.raises(DependencyAway):
            await answered(PolicyServiceStub(channel).GetPolicy(REQUEST))


async def test_handler_sees_the_caller_of_its_own_call(server: PoliciesUnderTest) -> None:
    async with (
        server.serving(who_calls) as ada,
        server.client(make_identity("globex", "bob")) as bob,
    ):
        answers = [await client.GetPolicy(REQUEST) for client in (ada, bob, ada)]
    assert [answer.policy.spec.name for answer in answers] == [
        "ada of acme",
        "bob of globex",
        "ada of acme",
    ]


async def test_missing_scope_is_rejected(server: PoliciesUnderTest) -> None:
    async def answer(_: pb.GetPolicyRequest) -> pb.GetPolicyResponse:
        require_scope(Scope.LEDGER_WRITE)
        return pb.GetPolicyResponse()

    async with server.serving(answer) as policies:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await policies.GetPolicy(REQUEST)
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_token_of_the_request_is_forwarded(server: PoliciesUnderTest) -> None:
    async def ask_again(request: pb.GetPolicyRequest) -> pb.GetPolicyResponse:
        if request.name != "front":
            return await who_calls(request)
        async with open_channel(f"127.0.0.1:{server.port}") as onward:
            answer: pb.GetPolicyResponse = await PolicyServiceStub(onward).GetPolicy(REQUEST)
        return answer

    async with server.serving(ask_again) as policies:
        answer = await policies.GetPolicy(pb.GetPolicyRequest(name="front"))
    assert answer.policy.spec.name == "ada of acme"


async def test_signer_without_a_fixed_identity_signs_for_the_current_one(
    server: PoliciesUnderTest,
) -> None:
    async with (
        server.serving(who_calls),
        open_channel(f"127.0.0.1:{server.port}", server.keys.signer()) as channel,
    ):
        with acting_as(make_identity("globex", "bob")):
            answer = await PolicyServiceStub(channel).GetPolicy(REQUEST)
        with pytest.raises(Unauthenticated):
            await PolicyServiceStub(channel).GetPolicy(REQUEST)
    assert answer.policy.spec.name == "bob of globex"


async def test_metadata_of_the_caller_is_not_touched(server: PoliciesUnderTest) -> None:
    metadata = grpc.aio.Metadata(("x-request", "1"))
    async with server.serving(who_calls) as policies:
        await policies.GetPolicy(REQUEST, metadata=metadata)
        await policies.GetPolicy(REQUEST, metadata=metadata)
    assert list(metadata) == [("x-request", "1")]


async def test_health_answers_without_identity(server: PoliciesUnderTest) -> None:
    async with server.serving(who_calls), server.plain_channel() as channel:
        request = health_pb2.HealthCheckRequest(service="liveness")
        answer = await health_pb2_grpc.HealthStub(channel).Check(request, wait_for_ready=True)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_reflection_names_the_services_without_identity(server: PoliciesUnderTest) -> None:
    async with server.serving(who_calls), server.plain_channel() as channel:
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([asked]))
        answer = await call.read()
    names = {service.name for service in answer.list_services_response.service}
    assert {POLICY_SERVICE, EPISODE_SERVICE, "grpc.health.v1.Health"} <= names
