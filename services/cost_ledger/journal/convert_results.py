"""Outcomes of operations as podium.ledger.v1 results, each of the kind that was asked."""

from cost_ledger.decisions.batches import Operation, Outcome
from cost_ledger.decisions.corrections import Adjust, Reverse, Settle
from cost_ledger.decisions.operations import Capture, Dispatch, Extend, Record, Release, Reserve
from cost_ledger.journal.convert import entry_to_proto, hold_to_proto, rejection_to_proto
from cost_ledger.models import Entry, Hold, Rejection
from podium.ledger.v1 import cost_ledger_service_pb2 as pb


def result_to_proto(operation: Operation, outcome: Outcome) -> pb.OperationResult:
    """The answer to one operation of a batch."""
    match outcome:
        case Entry():
            return _entry_result(operation, outcome)
        case Hold():
            return _hold_result(operation, outcome)
        case Rejection():
            return _rejection_result(operation, outcome)
    raise TypeError(f"{operation.name} has no outcome")


def close_to_proto(outcome: Outcome) -> pb.ClosePeriodResponse:
    """The answer to a closing, which no batch may contain."""
    if not isinstance(outcome, Entry):
        raise TypeError("a closing is answered by its entry")
    return pb.ClosePeriodResponse(entry=entry_to_proto(outcome))


def _entry_result(operation: Operation, entry: Entry) -> pb.OperationResult:
    message = entry_to_proto(entry)
    match operation:
        case Capture():
            return pb.OperationResult(capture=pb.CaptureResponse(entry=message))
        case Record():
            return pb.OperationResult(record=pb.RecordResponse(entry=message))
        case Reverse():
            return pb.OperationResult(reverse=pb.ReverseResponse(entry=message))
        case Adjust():
            return pb.OperationResult(adjust=pb.AdjustResponse(entry=message))
        case Settle():
            return pb.OperationResult(settle=pb.SettleResponse(entry=message))
    raise TypeError(f"{operation.name} was answered by an entry")


def _hold_result(operation: Operation, hold: Hold) -> pb.OperationResult:
    message = hold_to_proto(hold)
    match operation:
        case Reserve():
            return pb.OperationResult(reserve=pb.ReserveResponse(hold=message))
        case Release():
            return pb.OperationResult(release=pb.ReleaseResponse(hold=message))
        case Extend():
            return pb.OperationResult(extend=pb.ExtendResponse(hold=message))
        case Dispatch():
            return pb.OperationResult(mark_dispatched=pb.MarkDispatchedResponse(hold=message))
    raise TypeError(f"{operation.name} was answered by a hold")


def _rejection_result(operation: Operation, rejection: Rejection) -> pb.OperationResult:
    message = rejection_to_proto(rejection)
    if isinstance(operation, Extend):
        return pb.OperationResult(extend=pb.ExtendResponse(rejection=message))
    return pb.OperationResult(reserve=pb.ReserveResponse(rejection=message))
