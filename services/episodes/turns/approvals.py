"""Calls that wait for a person: for how long, and what was decided."""

from episodes.workflows.payloads import TurnInput
from podium.episodes.v1 import trajectory_pb2
from podium.registry.v1 import toolset_pb2
from podium_kit.wire import duration_from_proto

DEFAULT_TIMEOUT_S = 3600.0


def approval_timeout_s(toolset: bytes) -> float:
    """Seconds a call of an episode with the serialized toolset waits before it is denied."""
    timeout = toolset_pb2.Toolset.FromString(toolset).approval_timeout
    return duration_from_proto(timeout) or DEFAULT_TIMEOUT_S


def approval_of(turn: TurnInput, call_index: int) -> trajectory_pb2.ApprovalDecision | None:
    """What became of a call's request, for the record; None while nothing was decided."""
    approved = turn.approvals.get(str(call_index))
    if approved is None:
        return None
    decided = turn.decided.get(str(call_index))
    return trajectory_pb2.ApprovalDecision(
        approved=approved,
        actor=decided.actor if decided else "",
        reason=decided.reason if decided else "",
    )
