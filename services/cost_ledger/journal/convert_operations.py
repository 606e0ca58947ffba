from collections.abc import Callable
from typing import Any

from cost_ledger.errors import InvalidOperation
from cost_ledger.models import Alternative, Fallback, Subject, UnknownPricePolicy
from cost_ledger.posting.batches import Operation
from cost_ledger.posting.operations import (
    Adjust,
    Capture,
    ClosePeriod,
    Dispatch,
    Record,
    Release,
    Reserve,
    Settle,
)
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import hold_pb2
from podium_kit.rpc.identity import Identity
from podium_kit.wire import (
    duration_from_proto,
    money_from_proto,
    optional_money_from_proto,
    optional_time,
    quantities_from_proto,
    usage_from_proto,
)

TIME_TO_LIVE_S = 3600.0
POLICY_FROM_WIRE = {
    hold_pb2.UNKNOWN_PRICE_POLICY_UNSPECIFIED: UnknownPricePolicy.REJECT,
    hold_pb2.UNKNOWN_PRICE_POLICY_REJECT: UnknownPricePolicy.REJECT,
    hold_pb2.UNKNOWN_PRICE_POLICY_ADMIT_AT_CEILING: UnknownPricePolicy.ADMIT_AT_CEILING,
    hold_pb2.UNKNOWN_PRICE_POLICY_ADMIT: UnknownPricePolicy.ADMIT,
}


def _reserve(message: pb.ReserveRequest, caller: Identity) -> Reserve:
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
        teams=tuple(message.teams),
        agents=tuple(message.agents),
        keys=tuple(message.keys),
        service_class=message.service_class,
        region=message.region,
        alternatives=tuple(
            Alternative(each.tool, each.model, each.sku, quantities_from_proto(each.worst_case))
            for each in message.alternatives
        ),
        min_output_tokens=message.min_output_tokens,
        dispatched=message.dispatched,
        asks_again=message.asks_again,
        policy_version=message.policy_version,
        fallbacks=tuple(_fallback_from_proto(each) for each in message.fallbacks),
    )


def _capture(message: pb.CaptureRequest, caller: Identity) -> Capture:
    occurred = optional_time(message, "occur_time")
    by = _fallback_from_proto(message.answered_by) if message.HasField("answered_by") else None
    return Capture(caller.tenant, message.key, usage_from_proto(message.usage), occurred, by)


def _record(message: pb.RecordRequest, caller: Identity) -> Record:
    return Record(
        tenant=caller.tenant,
        key=message.key,
        subject=_subject_from_proto(message.subject, caller),
        sku=message.sku,
        usage=usage_from_proto(message.usage),
        occur_time=optional_time(message, "occur_time"),
        service_class=message.service_class,
        region=message.region,
        policy_version=message.policy_version,
    )


def _adjust(message: pb.AdjustRequest, caller: Identity) -> Adjust:
    change = money_from_proto(message.change)
    return Adjust(caller.tenant, message.key, message.sequence, change, message.reason)


def close_from_proto(message: pb.ClosePeriodRequest, caller: Identity) -> ClosePeriod:
    """No batch may contain a closing. Raises InvalidArgument."""
    if (end_time := optional_time(message, "end_time")) is None:
        raise InvalidOperation("end_time is unset; name the time before which the books close")
    return ClosePeriod(caller.tenant, message.key, end_time)


def names_in(message: pb.Operation) -> tuple[str, dict[str, str]]:
    """Returns the kind of the operation, and the keys and SKUs whose costs it may change, by
    field."""
    kind = message.WhichOneof("operation") or ""
    match kind:
        case "reserve":
            asked = message.reserve
            others = {f"fallbacks[{n}].sku": one.sku for n, one in enumerate(asked.fallbacks)}
            return kind, {"key": asked.key, "sku": asked.sku, **others}
        case "capture":
            asked_by = {"answered_by.sku": message.capture.answered_by.sku}
            answered = message.capture.HasField("answered_by")
            return kind, {"key": message.capture.key, **(asked_by if answered else {})}
        case "release":
            return kind, {"key": message.release.key}
        case "record":
            return kind, {"key": message.record.key, "sku": message.record.sku}
    return kind, {}


def operation_from_proto(message: pb.Operation, caller: Identity) -> Operation:
    name = message.WhichOneof("operation")
    if name is None:
        raise InvalidOperation("an operation of the batch is unset")
    return FROM_PROTO[name](getattr(message, name), caller)


def _fallback_from_proto(message: hold_pb2.Fallback) -> Fallback:
    return Fallback(message.model, message.sku)


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


FROM_PROTO: dict[str, Callable[[Any, Identity], Operation]] = {
    "reserve": _reserve,
    "mark_dispatched": lambda asked, caller: Dispatch(caller.tenant, asked.key),
    "capture": _capture,
    "release": lambda asked, caller: Release(caller.tenant, asked.key, reason=asked.reason),
    "record": _record,
    "adjust": _adjust,
    "settle": lambda asked, caller: Settle(
        caller.tenant,
        asked.key,
        usage_from_proto(asked.usage) if asked.HasField("usage") else None,
    ),
}
