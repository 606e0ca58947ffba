import pytest

from episodes.execution.call_tools import rejected
from podium.ledger.v1 import hold_pb2
from podium_kit.failures import FailureKind


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        (hold_pb2.REJECTION_REASON_BUDGET_EXHAUSTED, FailureKind.BUDGET_EXHAUSTED),
        (hold_pb2.REJECTION_REASON_UNKNOWN_PRICE, FailureKind.DENIED_BY_POLICY),
    ],
)
def test_a_rejection_keeps_its_reason(
    reason: hold_pb2.RejectionReason.ValueType, kind: FailureKind
) -> None:
    failure = rejected(hold_pb2.Rejection(reason=reason, message="why"))
    assert (failure.kind, failure.message) == (kind, "why")
