"""A tool call's record: why the ledger rejected it, or what the adapters answered."""

from episodes.charges.purchases import timeout_s
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.episodes.v1 import trajectory_pb2
from podium.ledger.v1 import hold_pb2
from podium.registry.v1 import toolset_pb2
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.wire import failure_from_proto

# The adapters enforce the tool's own timeout; this margin lets their answer arrive.
TIMEOUT_MARGIN_S = 10.0
# The model reads why a text is no whole answer.
CUT_WORDS = {
    "length": "the model ran out of tokens here: this is no whole answer",
    "content_filter": "the provider's filter ended this: it is no whole answer",
    "refusal": "the model declined to answer",
}
REJECTIONS = {
    hold_pb2.REJECTION_REASON_BUDGET_EXHAUSTED: FailureKind.BUDGET_EXHAUSTED,
    hold_pb2.REJECTION_REASON_UNKNOWN_PRICE: FailureKind.DENIED_BY_POLICY,
}


def answer_timeout_s(tool: toolset_pb2.ResolvedTool) -> float:
    """How long the adapters' answer is waited for, in seconds."""
    return timeout_s(tool) + TIMEOUT_MARGIN_S


def rejected(rejection: hold_pb2.Rejection) -> ToolFailure:
    """The failure of a call that the ledger holds no money for."""
    return ToolFailure(REJECTIONS.get(rejection.reason, FailureKind.INTERNAL), rejection.message)


def note_answer(
    record: trajectory_pb2.ToolInvocation, response: adapters_pb.InvokeResponse
) -> None:
    """Completes the record with what came of the call, and what it used."""
    if response.HasField("failure"):
        record.observation.failure.CopyFrom(response.failure)
    else:
        record.observation.content = response.output.content
        if response.finish_reason in CUT_WORDS:
            record.cut_reason = response.finish_reason
            record.observation.content += f"\n\n({CUT_WORDS[response.finish_reason]})"
    record.unsent = response.unsent
    if not response.unsent:
        record.usage.CopyFrom(response.usage)
    record.latency.CopyFrom(response.latency)
    record.latency_modelled = response.latency_modelled
    record.sku = response.sku
    if response.model_alias != record.model:
        record.answered_by_model = response.model_alias


def span_content(record: trajectory_pb2.ToolInvocation) -> tuple[str, str, str]:
    """Arguments, result and kind of failure of a call, for its span."""
    seen = record.observation
    kind = failure_from_proto(seen.failure).kind.value if seen.HasField("failure") else ""
    return seen.call.arguments_json, seen.content, kind
