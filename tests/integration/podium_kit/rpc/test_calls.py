"""Calls: deadlines, lost servers, watches, and what an error becomes on the wire."""

import asyncio
import errno
import logging

import grpc
import pytest

from callers import client_channel, make_identity
from integration.podium_kit.rpc.policies_under_test import PoliciesUnderTest, policy_named
from podium.episodes.v1 import episode_service_pb2 as episode_pb
from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceStub
from podium.registry.v1 import policy_service_pb2 as pb
from podium.registry.v1.policy_service_pb2_grpc import PolicyServiceStub
from podium_kit.rpc.errors import (
    Aborted,
    DependencyAway,
    DomainError,
    FailedPrecondition,
    InternalError,
    InvalidArgument,
    ShortOfResources,
    Unauthenticated,
    Unavailable,
    message_of,
)
from podium_kit.rpc.status import CODE_OF, domain_error_from

REQUEST = pb.GetPolicyRequest(name="frugal")
RECONNECT_S = 2.0


class Endless:
    """A handler that never answers and says when it was ended."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    async def __call__(self, _: pb.GetPolicyRequest) -> pb.GetPolicyResponse:
        try:
            return await asyncio.Future()
        finally:
            self.ended.set()


class Failing:
    """A handler that fails a few times before it answers."""

    def __init__(self, error: Exception, times: int) -> None:
        self.calls = 0
        self._error = error
        self._times = times

    async def __call__(self, request: pb.GetPolicyRequest) -> pb.GetPolicyResponse:
        self.calls += 1
        if self.calls <= self._times:
            raise self._error
        return policy_named(request.name)


async def echo(request: pb.GetPolicyRequest) -> pb.GetPolicyResponse:
    return policy_named(request.name)


async def test_deadline_of_the_client_ends_the_handler(server: PoliciesUnderTest) -> None:
    handler = Endless()
    async with server.serving(handler) as policies:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await policies.GetPolicy(REQUEST, timeout=0.3)
        await handler.ended.wait()
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_cancelled_call_ends_the_handler(server: PoliciesUnderTest) -> None:
    started, handler = asyncio.Event(), Endless()

    async def answer(request: pb.GetPolicyRequest) -> pb.GetPolicyResponse:
        started.set()
        return await handler(request)

    async with server.serving(answer) as policies:
        call = asyncio.ensure_future(policies.GetPolicy(REQUEST))
        await started.wait()
        call.cancel()
        await handler.ended.wait()


async def test_channel_sets_a_deadline_when_the_call_sets_none(
    server: PoliciesUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podium_kit.rpc.channel.DEFAULT_DEADLINE_S", 0.3)
    async with server.serving(Endless()) as policies:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await policies.GetPolicy(REQUEST)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_server_ends_a_call_without_any_deadline(
    server: PoliciesUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podium_kit.rpc.interceptors.DEFAULT_DEADLINE_S", 0.3)
    handler = Endless()
    token = server.keys.signer().sign(make_identity())
    async with server.serving(handler), server.plain_channel() as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await PolicyServiceStub(channel).GetPolicy(
                REQUEST, metadata=(("authorization", f"Bearer {token}"),)
            )
        await handler.ended.wait()
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert "no answer within" in (caught.value.details() or "")


async def test_unavailable_is_tried_again(server: PoliciesUnderTest) -> None:
    handler = Failing(Unavailable("not yet"), times=2)
    async with server.serving(handler) as policies:
        answer = await policies.GetPolicy(REQUEST)
    assert answer.policy.spec.name == "frugal"
    assert handler.calls == 3


async def test_unavailable_is_not_retried_endlessly(server: PoliciesUnderTest) -> None:
    handler = Failing(Unavailable("not yet"), times=100)
    async with server.serving(handler) as policies:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await policies.GetPolicy(REQUEST)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert handler.calls == 5


async def test_other_errors_are_not_tried_again(server: PoliciesUnderTest) -> None:
    handler = Failing(Aborted("lost against another"), times=1)
    async with server.serving(handler) as policies:
        with pytest.raises(grpc.aio.AioRpcError):
            await policies.GetPolicy(REQUEST)
    assert handler.calls == 1


async def test_restarted_server_is_found_again_at_once(server: PoliciesUnderTest) -> None:
    async with server.serving(echo):
        channel = client_channel(server.port, make_identity(), server.keys)
        policies = PolicyServiceStub(channel)
        await policies.GetPolicy(REQUEST)
    # Long enough that gRPC's own waits between attempts would have grown beyond the limit.
    for _ in range(8):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await policies.GetPolicy(REQUEST)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        await asyncio.sleep(0.5)
    async with server.serving(echo):
        answer = await policies.GetPolicy(REQUEST, wait_for_ready=True, timeout=RECONNECT_S)
        await channel.close(None)
    assert answer.policy.spec.name == "frugal"


async def test_watch_ends_with_its_watcher_and_without_noise(
    server: PoliciesUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        server.serving(echo),
        client_channel(server.port, make_identity(), server.keys) as channel,
    ):
        watch = EpisodeServiceStub(channel).WatchEpisode(episode_pb.WatchEpisodeRequest())
        await watch.read()
        assert server.episodes.open_watches == 1
        watch.cancel()
        while server.episodes.open_watches:
            await asyncio.sleep(0.01)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_answer_of_many_mebibytes_arrives(server: PoliciesUnderTest) -> None:
    request = pb.GetPolicyRequest(name="x" * (20 * 1024 * 1024))
    async with server.serving(echo) as policies:
        answer = await policies.GetPolicy(request)
    assert answer.policy.spec.name == request.name


async def failure_of(server: PoliciesUnderTest, error: BaseException) -> grpc.aio.AioRpcError:
    async def answer(_: pb.GetPolicyRequest) -> pb.GetPolicyResponse:
        raise error

    async with server.serving(answer) as policies:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await policies.GetPolicy(REQUEST)
    return caught.value


# A token of ours that is rejected is absence (test_identity.py).
@pytest.mark.parametrize("kind", [kind for kind in CODE_OF if kind is not Unauthenticated])
async def test_error_comes_back_as_its_class(
    server: PoliciesUnderTest, kind: type[DomainError]
) -> None:
    subclass = type("PolicyTooOld", (kind,), {})
    seen = await failure_of(server, subclass("policy frugal is too old", version=3))
    assert seen.code() is CODE_OF[kind]
    error = domain_error_from(seen)
    assert type(error) is kind
    assert error.message == "policy frugal is too old"
    assert error.reason == "POLICY_TOO_OLD"
    assert error.metadata == {"version": "3", "reason": "POLICY_TOO_OLD"}


async def test_error_raised_again_keeps_its_first_reason(server: PoliciesUnderTest) -> None:
    first = domain_error_from(await failure_of(server, FailedPrecondition("why", rate="0.9")))
    again = domain_error_from(await failure_of(server, first))
    assert type(again) is FailedPrecondition
    assert (again.reason, again.metadata) == (first.reason, first.metadata)


@pytest.mark.parametrize("key", ["message", "self", "reason"])
async def test_metadata_of_any_name_comes_back(server: PoliciesUnderTest, key: str) -> None:
    error = FailedPrecondition("why", **{key: "VALUE"})
    assert domain_error_from(await failure_of(server, error)).metadata[key] == "VALUE"


@pytest.mark.parametrize("message", ["Größe 雪 % \n next", "", "x" * 200_000, "雪" * 5_000])
async def test_message_of_any_text_and_length_keeps_the_status(
    server: PoliciesUnderTest, message: str
) -> None:
    error = domain_error_from(await failure_of(server, InvalidArgument(message)))
    assert type(error) is InvalidArgument
    assert error.message[:100] == (message[:100] or "INVALID_ARGUMENT")


UNKNOWN_ERRORS = {
    RuntimeError("hunter2"): (grpc.StatusCode.INTERNAL, "internal error"),
    TimeoutError("hunter2"): (grpc.StatusCode.UNAVAILABLE, DependencyAway().message),
    ConnectionRefusedError(111, "hunter2"): (grpc.StatusCode.UNAVAILABLE, DependencyAway().message),
    MemoryError("hunter2"): (grpc.StatusCode.UNAVAILABLE, ShortOfResources().message),
    OSError(errno.EMFILE, "hunter2"): (grpc.StatusCode.UNAVAILABLE, ShortOfResources().message),
}


@pytest.mark.parametrize("secret", UNKNOWN_ERRORS, ids=lambda secret: type(secret).__name__)
async def test_unknown_error_says_nothing_outside_and_everything_in_the_log(
    server: PoliciesUnderTest, secret: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    seen = await failure_of(server, secret)
    assert (seen.code(), seen.details()) == UNKNOWN_ERRORS[secret]
    told = f"{seen.debug_error_string()} {seen.trailing_metadata()} {seen.initial_metadata()}"
    assert "hunter2" not in told
    record = [entry for entry in caplog.records if entry.levelno >= logging.ERROR][-1]
    assert record.exc_info
    assert record.exc_info[1] is secret


async def test_bug_of_a_service_is_unavailable_for_its_clients(server: PoliciesUnderTest) -> None:
    error = domain_error_from(await failure_of(server, ZeroDivisionError()))
    assert isinstance(error, Unavailable)
    assert (type(error), error.message) == (InternalError, "internal error")


async def test_words_of_grpc_stay_inside(server: PoliciesUnderTest) -> None:
    async with server.client() as nobody:
        with pytest.raises(grpc.aio.AioRpcError) as gone:
            await nobody.GetPolicy(REQUEST)
    for uncaught in (gone.value, domain_error_from(gone.value)):
        error = domain_error_from(await failure_of(server, uncaught))
        assert isinstance(error, Unavailable)
        assert error.message == DependencyAway().message
    logged = message_of(domain_error_from(gone.value))
    assert DependencyAway().message in logged
    assert (gone.value.details() or "") in logged
