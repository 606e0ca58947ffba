"""Money for guardrails that have a price: held before the call that they read, captured where they
were asked, and released where they were not."""

from collections.abc import Iterable, Sequence

from episodes.spending.worst_case import hold_request
from podium.common.v1 import usage_pb2
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.registry.v1 import guardrail_pb2, policy_pb2
from podium_kit.guardrail_keys import guardrail_key
from podium_kit.metering import Usage, UsageSource
from podium_kit.wire import enum_word, usage_to_proto

CALL_STAGES = (guardrail_pb2.GUARDRAIL_STAGE_INPUT, guardrail_pb2.GUARDRAIL_STAGE_OUTPUT)
ANSWER_STAGES = (guardrail_pb2.GUARDRAIL_STAGE_ANSWER,)
ONE_QUESTION = Usage.of(UsageSource.MEASURED, call=1)
NOT_ASKED = "the guardrail was not asked"
MAYBE_ASKED = "the call was cut off; whether the guardrail was asked is not known"


def guardrail_holds(
    call: pb.ReserveRequest,
    guardrails: Iterable[policy_pb2.Guardrail],
    stages: Sequence["guardrail_pb2.GuardrailStage.ValueType"],
) -> list[pb.ReserveRequest]:
    """Describes every question that a call may put to a guardrail with a price."""
    return [
        hold_request(
            guardrail_key(call.key, _word(stage), index),
            f"guardrail {guardrail.name}",
            "",
            guardrail.http.sku,
            ONE_QUESTION.quantities,
            turn=call.subject.turn,
        )
        for index, guardrail in enumerate(guardrails)
        if guardrail.http.sku
        for stage in stages
        if not guardrail.stages or stage in guardrail.stages
    ]


def guardrail_charges(
    keys: Iterable[str],
    decisions: Sequence[guardrail_pb2.GuardrailDecision],
    *,
    cut_off: bool = False,
) -> list[pb.Operation]:
    """Returns what ends the holds of a call's guardrails; nothing is known of those of a call that
    was cut off."""
    asked = {each.ledger_key for each in decisions}
    operations = []
    for key in keys:
        if key in asked:
            capture = pb.CaptureRequest(key=key, usage=usage_to_proto(ONE_QUESTION))
            operations.append(pb.Operation(capture=capture))
        elif cut_off and not decisions:
            operations.append(pb.Operation(capture=unknown_question(key)))
        else:
            operations.append(pb.Operation(release=pb.ReleaseRequest(key=key, reason=NOT_ASKED)))
    return operations


def unknown_question(key: str) -> pb.CaptureRequest:
    source = usage_pb2.USAGE_SOURCE_ESTIMATED
    return pb.CaptureRequest(
        key=key, usage=usage_pb2.Usage(source=source, unusable_reason=MAYBE_ASKED)
    )


def _word(stage: "guardrail_pb2.GuardrailStage.ValueType") -> str:
    return enum_word(guardrail_pb2.GuardrailStage.Name(stage), "GUARDRAIL_STAGE_")
