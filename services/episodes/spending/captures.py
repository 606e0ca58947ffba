import logging

from episodes.clients import Ledger
from episodes.keys import StepKind
from episodes.models import Step
from episodes.spending.guardrail_holds import guardrail_charges
from episodes.step_log.log import StepLog
from podium.common.v1 import failure_pb2, usage_pb2
from podium.episodes.v1 import trajectory_pb2
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import hold_pb2
from podium_kit.money import Money
from podium_kit.rpc.errors import InvalidArgument
from podium_kit.wire import enum_word, optional_money_from_proto

log = logging.getLogger(__name__)

UNUSABLE_REASON_MAX = 400


def captured_cost(entry: hold_pb2.Entry) -> Money | None:
    """Returns the cost of a call; None for an unknown one, also where the ledger posts the worst
    case."""
    if any(posting.account == "provisional" for posting in entry.postings):
        return None
    return optional_money_from_proto(entry.amount)


async def captured_alone(ledger: Ledger, capture: pb.CaptureRequest) -> pb.OperationResult:
    """Captures a usage, without a price where the ledger rejects it: no usage may keep an episode
    open."""
    operation = pb.Operation(capture=capture)
    try:
        [result] = await ledger.apply([operation])
    except InvalidArgument as error:
        log.warning("%s is recorded without a price: %s", capture.key, error.message)
        reason = f"the ledger rejected the usage: {error.message}"[:UNUSABLE_REASON_MAX]
        source = capture.usage.source or usage_pb2.USAGE_SOURCE_PROVIDER
        operation.capture.usage.CopyFrom(usage_pb2.Usage(source=source, unusable_reason=reason))
        [result] = await ledger.apply([operation])
    return result


def unsent_release(key: str, failure: failure_pb2.Failure) -> pb.Operation:
    """Releases the hold of a call that was not sent.

    The reason is the kind of failure: its message may quote what a user wrote.
    """
    kind = enum_word(failure_pb2.FailureKind.Name(failure.kind), "FAILURE_KIND_")
    return release(key, f"not sent: {kind}")


def release(key: str, reason: str) -> pb.Operation:
    return pb.Operation(release=pb.ReleaseRequest(key=key, reason=reason))


def charges_of(steps: StepLog, step: Step) -> list[pb.Operation]:
    """Returns what ends the holds of a step: its call's, and those of the guardrails of it."""
    call, usage = steps.call(step), steps.charged_usage(step)
    if call is None:
        return []
    ended = guardrail_charges(
        call.guardrail_keys,
        call.guardrails,
        cut_off=usage is not None and bool(usage.unusable_reason),
    )
    if usage is not None:
        answered_by = _answered_by(steps, step)
        capture = pb.CaptureRequest(key=step.key, usage=usage, answered_by=answered_by)
        ended.append(pb.Operation(capture=capture))
    elif isinstance(call, trajectory_pb2.ToolInvocation) and call.unsent:
        ended.append(unsent_release(step.key, call.observation.failure))
    return ended


def _answered_by(steps: StepLog, step: Step) -> hold_pb2.Fallback | None:
    if step.kind is not StepKind.TOOL:
        return None
    invocation = steps.tool_calls[step.turn][step.call_index]
    model = invocation.answered_by_model
    return hold_pb2.Fallback(model=model, sku=invocation.sku) if model else None
