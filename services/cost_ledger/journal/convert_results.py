"""Outcomes of operations as podium.ledger.v1 results, each of the kind that was asked."""

from typing import Any

from cost_ledger.decisions.batches import Operation, Outcome
from cost_ledger.journal.convert import (
    entry_to_proto,
    hold_to_proto,
    listed_entry_to_proto,
    rejection_to_proto,
)
from cost_ledger.models import Entry, Hold, Rejection
from podium.ledger.v1 import cost_ledger_service_pb2 as pb

# Where the wire has another name for an operation.
NAMES = {"dispatch": "mark_dispatched"}


def result_to_proto(operation: Operation, outcome: Outcome) -> pb.OperationResult:
    """The answer to one operation of a batch."""
    result = pb.OperationResult()
    # A field per operation, each a message with the outcomes that the operation can have.
    answer: Any = getattr(result, NAMES.get(operation.name, operation.name))
    match outcome:
        case Entry():
            # Of a worst case the caller is to see that it is none that is known.
            shown = listed_entry_to_proto if outcome.postings.provisional else entry_to_proto
            answer.entry.CopyFrom(shown(outcome))
        case Hold():
            answer.hold.CopyFrom(hold_to_proto(outcome))
        case Rejection():
            answer.rejection.CopyFrom(rejection_to_proto(outcome))
        case None:
            raise TypeError(f"{operation.name} has no outcome")
    return result


def close_to_proto(outcome: Outcome) -> pb.ClosePeriodResponse:
    """The answer to a closing, which no batch may contain."""
    if not isinstance(outcome, Entry):
        raise TypeError("a closing is answered by its entry")
    return pb.ClosePeriodResponse(entry=entry_to_proto(outcome))
