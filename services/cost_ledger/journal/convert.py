from typing import Any

from cost_ledger.fingerprint import decimal_text
from cost_ledger.models import (
    Entry,
    EntryKind,
    FittingAlternative,
    Hold,
    HoldState,
    Rejection,
    RejectionReason,
    Subject,
)
from cost_ledger.posting.batches import Operation, Outcome
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import hold_pb2
from podium_kit.wire import money_to_proto, quantities_to_proto, timestamp_to_proto, usage_to_proto

STATE_TO_WIRE = {state: hold_pb2.HoldState.Value(f"HOLD_STATE_{state.name}") for state in HoldState}
REASON_TO_WIRE = {
    reason: hold_pb2.RejectionReason.Value(f"REJECTION_REASON_{reason.name}")
    for reason in RejectionReason
}
KIND_TO_WIRE = {kind: hold_pb2.EntryKind.Value(f"ENTRY_KIND_{kind.name}") for kind in EntryKind}


def hold_to_proto(hold: Hold) -> hold_pb2.Hold:
    return hold_pb2.Hold(
        key=hold.call.key,
        subject=_subject_to_proto(hold.call.subject),
        sku=hold.call.sku,
        amount=money_to_proto(hold.amount) if hold.amount else None,
        state=STATE_TO_WIRE[hold.state],
        price_version_id=hold.price_version_id,
        create_time=timestamp_to_proto(hold.create_time),
        expire_time=timestamp_to_proto(hold.expire_time),
        worst_case=quantities_to_proto(hold.worst_case),
        service_class=hold.call.service_class,
        region=hold.call.region,
        dispatched=hold.dispatched,
        fallbacks=[hold_pb2.Fallback(model=each.model, sku=each.sku) for each in hold.fallbacks],
    )


def rejection_to_proto(rejection: Rejection) -> hold_pb2.Rejection:
    return hold_pb2.Rejection(
        reason=REASON_TO_WIRE[rejection.reason],
        message=rejection.message,
        budget_id=rejection.budget_id,
        remaining=money_to_proto(rejection.remaining) if rejection.remaining else None,
        fitting_output_tokens=rejection.fitting_output_tokens,
        alternative=_alternative_to_proto(rejection.alternative) if rejection.alternative else None,
    )


def _alternative_to_proto(alternative: FittingAlternative) -> hold_pb2.FittingAlternative:
    return hold_pb2.FittingAlternative(
        tool=alternative.tool,
        model=alternative.model,
        worst_case_cost=money_to_proto(alternative.worst_case_cost),
    )


def entry_to_proto(entry: Entry) -> hold_pb2.Entry:
    return hold_pb2.Entry(
        sequence=entry.sequence,
        kind=KIND_TO_WIRE[entry.kind],
        key=entry.call.key,
        subject=_subject_to_proto(entry.call.subject),
        sku=entry.call.sku,
        usage=usage_to_proto(entry.usage) if entry.usage else None,
        amount=money_to_proto(entry.amount) if entry.amount else None,
        price_version_id=entry.price_version_id,
        corrects_sequence=entry.corrects_sequence,
        occur_time=timestamp_to_proto(entry.occur_time),
        create_time=timestamp_to_proto(entry.create_time),
        hash=entry.hash,
        reason=entry.reason,
        worst_case=quantities_to_proto(entry.worst_case),
        service_class=entry.call.service_class,
        region=entry.call.region,
        policy_version=entry.call.policy_version,
    )


def listed_entry_to_proto(entry: Entry) -> hold_pb2.Entry:
    message = entry_to_proto(entry)
    message.postings.extend(
        hold_pb2.Posting(account=account, unit=unit, amount=decimal_text(amount))
        for account, unit, amount in entry.postings.by_account()
    )
    return message


def _subject_to_proto(subject: Subject) -> hold_pb2.Subject:
    return hold_pb2.Subject(**{name: getattr(subject, name) for name in Subject.__slots__})


# Where the wire has another name for an operation.
NAMES = {"dispatch": "mark_dispatched"}


def result_to_proto(operation: Operation, outcome: Outcome) -> pb.OperationResult:
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
    if not isinstance(outcome, Entry):
        raise TypeError("a closing is answered by its entry")
    return pb.ClosePeriodResponse(entry=entry_to_proto(outcome))
