from podium.common.v1 import failure_pb2
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.rpc.errors import InvalidArgument
from podium_kit.wire.time import duration_from_proto, duration_to_proto

_PREFIX = "FAILURE_KIND_"
_TO_WIRE = {kind: failure_pb2.FailureKind.Value(_PREFIX + kind.name) for kind in FailureKind}
_FROM_WIRE = {number: kind for kind, number in _TO_WIRE.items()}


def failure_to_proto(failure: ToolFailure) -> failure_pb2.Failure:
    message = failure_pb2.Failure(
        kind=_TO_WIRE[failure.kind], message=failure.message, retryable=failure.retryable
    )
    if failure.retry_after_s is not None:
        message.retry_after.CopyFrom(duration_to_proto(failure.retry_after_s))
    return message


def failure_from_proto(message: failure_pb2.Failure) -> ToolFailure:
    if message.kind not in _FROM_WIRE:
        raise InvalidArgument("failure.kind is unset")
    return ToolFailure(
        _FROM_WIRE[message.kind],
        message.message,
        message.retryable,
        duration_from_proto(message.retry_after) if message.HasField("retry_after") else None,
    )
