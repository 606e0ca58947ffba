import errno
import logging

import grpc
import pytest

from integration.podium_kit.rpc.policies_under_test import PoliciesUnderTest
from podium.registry.v1 import policy_service_pb2 as pb
from podium_kit.rpc.errors import (
    DependencyAway,
    DomainError,
    FailedPrecondition,
    InternalError,
    InvalidArgument,
    ShortOfResources,
    Unauthenticated,
    Unavailable,
)
from podium_kit.rpc.status import CODE_OF, domain_error_from

REQUEST = pb.GetPolicyRequest(name="frugal")


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
