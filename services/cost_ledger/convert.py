"""podium.ledger.v1 holds, operations and entries as domain values, and back."""

from cost_ledger.batches import Operation, Outcome
from cost_ledger.corrections import Reverse
from cost_ledger.errors import InvalidOperation
from cost_ledger.models import (
    Alternative,
    Entry,
    EntryKind,
    FittingAlternative,
    Hold,
    HoldState,
    Refusal,
    RefusalReason,
    Subject,
    UnknownPricePolicy,
)
from cost_ledger.operations import Capture, Record, Release, Reserve
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import hold_pb2
from rpckit.identity import Identity
from wire import (
    duration_from_proto,
    money_to_proto,
    optional_money_from_proto,
    quantities_from_proto,
    quantities_to_proto,
    timestamp_from_proto,
    timestamp_to_proto,
    usage_from_proto,
    usage_to_proto,
)

TIME_TO_LIVE_S = 3600.0
STATE_TO_WIRE = {state: hold_pb2.HoldState.Value(f"HOLD_STATE_{state.name}") for state in HoldState}
REASON_TO_WIRE = {
    reason: hold_pb2.RefusalReason.Value(f"REFUSAL_REASON_{reason.name}")
    for reason in RefusalReason
}
KIND_TO_WIRE = {kind: hold_pb2.EntryKind.Value(f"ENTRY_KIND_{kind.name}") for kind in EntryKind}
POLICY_FROM_WIRE = {
    hold_pb2.UNKNOWN_PRICE_POLICY_UNSPECIFIED: UnknownPricePolicy.REFUSE,
    hold_pb2.UNKNOWN_PRICE_POLICY_REFUSE: UnknownPricePolicy.REFUSE,
    hold_pb2.UNKNOWN_PRICE_POLICY_ADMIT_AT_CEILING: UnknownPricePolicy.ADMIT_AT_CEILING,
    hold_pb2.UNKNOWN_PRICE_POLICY_ADMIT: UnknownPricePolicy.ADMIT,
}


def reserve_from_proto(message: pb.ReserveRequest, caller: Identity) -> Reserve:
    """The operation. Raises InvalidArgument naming what is wrong."""
    if message.unknown_price not in POLICY_FROM_WIRE:
        raise InvalidOperation(f"unknown_price {message.unknown_price} is not a known policy")
    has_time = message.HasField("time_to_live")
    return Reserve(
        tenant=caller.tenant,
        key=message.key,
        subject=_subject_from_proto(message.subject, caller),
        sku=message.sku,
        worst_case=quantities_from_proto(message.worst_case),
        unknown_price=POLICY_FROM_WIRE[message.unknown_price],
        ceiling=optional_money_from_proto(message.ceiling),
        time_to_live_s=duration_from_proto(message.time_to_live) if has_time else TIME_TO_LIVE_S,
        budget_ids=tuple(message.budget_ids),
        service_class=message.service_class,
        region=message.region,
        alternatives=tuple(
            Alternative(each.tool, each.model, each.sku, quantities_from_proto(each.worst_case))
            for each in message.alternatives
        ),
        min_output_tokens=message.min_output_tokens,
    )


def capture_from_proto(message: pb.CaptureRequest, caller: Identity) -> Capture:
    """The operation. Raises InvalidArgument naming what is wrong."""
    occurred = timestamp_from_proto(message.occur_time) if message.HasField("occur_time") else None
    return Capture(caller.tenant, message.key, usage_from_proto(message.usage), occurred)


def release_from_proto(message: pb.ReleaseRequest, caller: Identity) -> Release:
    """The operation."""
    return Release(caller.tenant, message.key)


def record_from_proto(message: pb.RecordRequest, caller: Identity) -> Record:
    """The operation. Raises InvalidArgument naming what is wrong."""
    return Record(
        tenant=caller.tenant,
        key=message.key,
        subject=_subject_from_proto(message.subject, caller),
        sku=message.sku,
        usage=usage_from_proto(message.usage),
        occur_time=(
            timestamp_from_proto(message.occur_time) if message.HasField("occur_time") else None
        ),
        service_class=message.service_class,
        region=message.region,
    )


def reverse_from_proto(message: pb.ReverseRequest, caller: Identity) -> Reverse:
    """The operation. Raises InvalidArgument naming what is wrong."""
    return Reverse(caller.tenant, message.key, message.sequence, message.reason)


def operation_from_proto(message: pb.Operation, caller: Identity) -> Operation:
    """The operation of a batch. Raises InvalidArgument when none is set."""
    match message.WhichOneof("operation"):
        case "reserve":
            return reserve_from_proto(message.reserve, caller)
        case "capture":
            return capture_from_proto(message.capture, caller)
        case "release":
            return release_from_proto(message.release, caller)
        case "record":
            return record_from_proto(message.record, caller)
        case _:
            raise InvalidOperation("an operation of the batch is unset")


def result_to_proto(operation: Operation, outcome: Outcome) -> pb.OperationResult:
    """The answer to one operation of a batch, of the same kind."""
    match operation, outcome:
        case Reserve(), Hold() | Refusal():
            return pb.OperationResult(reserve=reserve_to_proto(outcome))
        case Capture(), Entry():
            return pb.OperationResult(capture=pb.CaptureResponse(entry=entry_to_proto(outcome)))
        case Record(), Entry():
            return pb.OperationResult(record=pb.RecordResponse(entry=entry_to_proto(outcome)))
        case Release(), Hold():
            return pb.OperationResult(release=pb.ReleaseResponse(hold=hold_to_proto(outcome)))
        case _:
            raise TypeError(f"{operation.name} was answered by {type(outcome).__name__}")


def reversal_to_proto(outcomes: tuple[Outcome, ...]) -> pb.ReverseResponse:
    """The answer to a reversal, which is a batch of its own."""
    (entry,) = outcomes
    if not isinstance(entry, Entry):
        raise TypeError(f"a reversal was answered by {type(entry).__name__}")
    return pb.ReverseResponse(entry=entry_to_proto(entry))


def reserve_to_proto(outcome: Hold | Refusal) -> pb.ReserveResponse:
    """The hold, or why there is none."""
    if isinstance(outcome, Refusal):
        return pb.ReserveResponse(refusal=refusal_to_proto(outcome))
    return pb.ReserveResponse(hold=hold_to_proto(outcome))


def hold_to_proto(hold: Hold) -> hold_pb2.Hold:
    """The message; an unknown amount stays unset."""
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
    )


def refusal_to_proto(refusal: Refusal) -> hold_pb2.Refusal:
    """The message."""
    return hold_pb2.Refusal(
        reason=REASON_TO_WIRE[refusal.reason],
        message=refusal.message,
        budget_id=refusal.budget_id,
        remaining=money_to_proto(refusal.remaining) if refusal.remaining else None,
        fitting_output_tokens=refusal.fitting_output_tokens,
        alternative=_alternative_to_proto(refusal.alternative) if refusal.alternative else None,
    )


def _alternative_to_proto(alternative: FittingAlternative) -> hold_pb2.FittingAlternative:
    return hold_pb2.FittingAlternative(
        tool=alternative.tool,
        model=alternative.model,
        worst_case_cost=money_to_proto(alternative.worst_case_cost),
    )


def entry_to_proto(entry: Entry) -> hold_pb2.Entry:
    """The message; an unknown amount stays unset."""
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
    )


def _subject_from_proto(message: hold_pb2.Subject, caller: Identity) -> Subject:
    return Subject(
        episode_id=message.episode_id,
        turn=message.turn,
        tool=message.tool,
        model=message.model,
        team=message.team,
        user=message.user or caller.subject,
        agent=message.agent,
    )


def _subject_to_proto(subject: Subject) -> hold_pb2.Subject:
    return hold_pb2.Subject(
        episode_id=subject.episode_id,
        turn=subject.turn,
        tool=subject.tool,
        model=subject.model,
        team=subject.team,
        user=subject.user,
        agent=subject.agent,
    )
