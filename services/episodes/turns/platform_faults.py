"""Calls that the platform gives no answer to: what the model sees, and what becomes of the hold."""

import logging

from episodes.clients import Adapters
from episodes.temporal.activity_errors import TRANSIENT, faults_of
from episodes.turns.tool_records import answer_timeout_s, note_answer
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.common.v1 import usage_pb2
from podium.episodes.v1 import trajectory_pb2
from podium.registry.v1 import toolset_pb2
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.rpc.errors import DomainError, InternalError
from podium_kit.wire import failure_to_proto

log = logging.getLogger(__name__)

# After so many faults at one call it becomes a failure the model sees.
FAULTS_MAX = 8
UNKNOWN = "the call met a fault of the platform; whether it was made is not known"


async def ask_adapters(
    adapters: Adapters,
    request: adapters_pb.InvokeRequest,
    tool: toolset_pb2.ResolvedTool,
    record: trajectory_pb2.ToolInvocation,
) -> adapters_pb.InvokeResponse | None:
    """The answer, noted in the record; None for a fault that trying again would not end.

    Money is held for the call, so the record says what becomes of it either way. Raises the
    DomainError of a part of the platform that is away: the call waits.
    """
    try:
        response = await adapters.invoke(request, answer_timeout_s(tool))
    except DomainError as error:
        failure = failure_of(error, record.key)
        record.observation.failure.CopyFrom(failure_to_proto(failure))
        # The adapters reject a call before they make it. After a fault it is not known
        # whether it was made, so its cost is unknown, and not 0.
        if failure.kind is FailureKind.INTERNAL:
            record.unsent = True
        else:
            record.usage.source = usage_pb2.USAGE_SOURCE_ESTIMATED
            record.usage.unusable_reason = UNKNOWN
            log.warning("%s is recorded without a price: %s", record.key, UNKNOWN)
        return None
    note_answer(record, response)
    return response


def failure_of(error: DomainError, key: str) -> ToolFailure:
    """A fault the model can see. A part of the platform that is away is none, and raised again."""
    if not isinstance(error, TRANSIENT):
        return ToolFailure(FailureKind.INTERNAL, error.message)
    if isinstance(error, InternalError) and faults_of(key) >= FAULTS_MAX:
        return ToolFailure(FailureKind.UNAVAILABLE, UNKNOWN)
    raise error
