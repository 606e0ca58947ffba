"""The one table between domain errors and gRPC status codes, read both ways."""

import logging
from collections.abc import Awaitable
from typing import Any, TypeVar

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from podium_kit.rpc.errors import (
    Aborted,
    AlreadyExists,
    CallTooLarge,
    DeadlineExceeded,
    DependencyAway,
    DomainError,
    FailedPrecondition,
    InternalError,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
)

R = TypeVar("R")
log = logging.getLogger(__name__)

ERROR_DOMAIN = "podium"
DETAILS_KEY = "grpc-status-details-bin"
# A negative one tells the channel of the client not to retry by itself (gRFC A6).
PUSHBACK_KEY = "grpc-retry-pushback-ms"
Trailers = tuple[tuple[str, str | bytes], ...]
# Clients drop trailers above 8 KiB, status and all; a message is in them twice, percent-encoded.
MESSAGE_BYTES_MAX = 1_500
METADATA_BYTES_MAX = 300

CODE_OF: dict[type[DomainError], grpc.StatusCode] = {
    InvalidArgument: grpc.StatusCode.INVALID_ARGUMENT,
    NotFound: grpc.StatusCode.NOT_FOUND,
    AlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
    FailedPrecondition: grpc.StatusCode.FAILED_PRECONDITION,
    PermissionDenied: grpc.StatusCode.PERMISSION_DENIED,
    Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    ResourceExhausted: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Unavailable: grpc.StatusCode.UNAVAILABLE,
    InternalError: grpc.StatusCode.INTERNAL,
    DeadlineExceeded: grpc.StatusCode.DEADLINE_EXCEEDED,
    Aborted: grpc.StatusCode.ABORTED,
}
ERROR_OF = {code: error for error, code in CODE_OF.items()}
# What gRPC itself reports when a connection was lost or no answer came in time.
LOST = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INTERNAL,
    }
)


def code_of(error: DomainError) -> grpc.StatusCode:
    for base in type(error).__mro__:
        if base in CODE_OF:
            return CODE_OF[base]
    return grpc.StatusCode.INTERNAL


def status_of(error: DomainError) -> tuple[grpc.StatusCode, str, Trailers]:
    """Code, message and trailers: ErrorInfo and, where it says when, RetryInfo (AIP-193)."""
    metadata = {key: _cut(value, METADATA_BYTES_MAX) for key, value in error.metadata.items()}
    metadata.pop("retry_after_s", None)
    details: list[Message] = [
        error_details_pb2.ErrorInfo(reason=error.reason, domain=ERROR_DOMAIN, metadata=metadata)
    ]
    if error.retry_after_s is not None:
        delay = Duration()
        delay.FromNanoseconds(round(error.retry_after_s * 1e9))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    code, message = code_of(error), _cut(error.message, MESSAGE_BYTES_MAX)
    packed = status_pb2.Status(code=code.value[0], message=message)
    for detail in details:
        packed.details.add().Pack(detail)
    trailers: list[tuple[str, str | bytes]] = [(DETAILS_KEY, packed.SerializeToString())]
    if error.retry_after_s is not None:
        # Otherwise the client's channel would try again at once.
        trailers.append((PUSHBACK_KEY, "-1"))
    return code, message, tuple(trailers)


def _cut(text: str, bytes_max: int) -> str:
    raw = text.encode()
    return text if len(raw) <= bytes_max else raw[:bytes_max].decode(errors="ignore") + "..."


async def answered(call: Awaitable[R]) -> R:
    """The reply of an RPC. Raises the domain error that its service raised."""
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        raise domain_error_from(error) from error


def domain_error_from(error: grpc.aio.AioRpcError) -> DomainError:
    """The domain error a Podium service raised, as its client sees it.

    Errors of gRPC itself carry no ErrorInfo: their texts hold addresses, so none is passed on.
    """
    code, metadata = error.code(), _metadata(error)
    if "reason" not in metadata and code in LOST:
        return DependencyAway(error.details() or code.name)
    if code is grpc.StatusCode.UNAUTHENTICATED:
        # The caller was verified at the door, so the token is ours: one side has keys that the
        # other does not have yet. That passes, and is not the caller's fault.
        log.warning("a service does not take our internal token: are its keys being changed?")
        return DependencyAway()
    if "reason" not in metadata and code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return CallTooLarge()
    if code not in ERROR_OF:
        return InternalError()
    return ERROR_OF[code](error.details() or code.name, **metadata)


def _metadata(error: grpc.aio.AioRpcError) -> dict[str, str]:
    trailing: Any = error.trailing_metadata() or ()
    found: dict[str, str] = {}
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    for key, value in trailing:
        if key == DETAILS_KEY and isinstance(value, bytes):
            for detail in status_pb2.Status.FromString(value).details:
                if detail.Unpack(info):
                    found |= {**info.metadata, "reason": info.reason}
                elif detail.Unpack(retry):
                    found["retry_after_s"] = str(retry.retry_delay.ToNanoseconds() / 1e9)
    return found
