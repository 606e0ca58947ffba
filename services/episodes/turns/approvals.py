"""Calls that wait for a person: what was decided."""

from episodes.workflows.payloads import TurnInput
from podium.episodes.v1 import trajectory_pb2


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
