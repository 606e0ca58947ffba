"""The one table between domain errors and gRPC status codes, read both ways."""

from typing import Any

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from podium_kit.rpc.errors import (
    Aborted,
    AlreadyExists,
    DeadlineExceeded,
    DomainError,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
)

ERROR_DOMAIN = "podium"
DETAILS_KEY = "grpc-status-details-bin"
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
    DeadlineExceeded: grpc.StatusCode.DEADLINE_EXCEEDED,
    Aborted: grpc.StatusCode.ABORTED,
}
ERROR_OF = {code: error for error, code in CODE_OF.items()}


def code_of(error: DomainError) -> grpc.StatusCode:
    """Status code of the nearest base class in the table."""
    for base in type(error).__mro__:
        if base in CODE_OF:
            return CODE_OF[base]
    return grpc.StatusCode.INTERNAL


def status_of(error: DomainError) -> grpc.Status:
    """The error as a gRPC status with ErrorInfo (AIP-193)."""
    metadata = {key: _cut(value, METADATA_BYTES_MAX) for key, value in error.metadata.items()}
    info = error_details_pb2.ErrorInfo(reason=error.reason, domain=ERROR_DOMAIN, metadata=metadata)
    detail = any_pb2.Any()
    detail.Pack(info)
    message = _cut(error.message, MESSAGE_BYTES_MAX)
    status = status_pb2.Status(code=code_of(error).value[0], message=message, details=[detail])
    return rpc_status.to_status(status)


def _cut(text: str, bytes_max: int) -> str:
    raw = text.encode()
    return text if len(raw) <= bytes_max else raw[:bytes_max].decode(errors="ignore") + "..."


def domain_error_from(error: grpc.aio.AioRpcError) -> DomainError:
    """The domain error a Podium service raised, as its client sees it.

    Codes outside the table (INTERNAL, UNKNOWN, CANCELLED, ...) are faults of the
    service and count as Unavailable: the caller cannot fix them.
    """
    kind = ERROR_OF.get(error.code(), Unavailable)
    metadata = _error_info(error)
    return kind(error.details() or error.code().name, **metadata)


def _error_info(error: grpc.aio.AioRpcError) -> dict[str, str]:
    trailing: Any = error.trailing_metadata() or ()
    for key, value in trailing:
        if key == DETAILS_KEY and isinstance(value, bytes):
            for detail in status_pb2.Status.FromString(value).details:
                info = error_details_pb2.ErrorInfo()
                if detail.Unpack(info):
                    return {**info.metadata, "reason": info.reason}
    return {}
