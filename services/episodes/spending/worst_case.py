import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from episodes.attachments.reading import file_tokens
from episodes.keys import StepKind, effect_key
from episodes.step_log.log import StepLog, expert_context
from episodes.step_log.running_episode import RunningEpisode
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium.ledger.v1 import hold_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.registry.v1 import toolset_pb2
from podium_kit.attachments import Attachment
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.metering import Dimension, Quantity
from podium_kit.tool_kinds import kind_of
from podium_kit.wire import duration_from_proto, quantities_to_proto

DEFAULT_TIMEOUT_S = 30.0
# A shorter answer or tool call is useless.
OUTPUT_TOKENS_MIN = 64
# What the ledger takes with one call.
ALTERNATIVES_MAX = 50
FALLBACKS_MAX = 20
TEMPLATE_TOKENS = 1024


def hold_request(
    key: str,
    tool: str,
    model: str,
    sku: str,
    worst_case: tuple[Quantity, ...],
    *,
    turn: int = 0,
    alternatives: Sequence[ledger_pb.Alternative] = (),
    fallbacks: Sequence[hold_pb2.Fallback] = (),
) -> ledger_pb.ReserveRequest:
    """Describes a call before it is made and the most it can use; its payer completes the request.

    A rejection names which of the alternatives would fit. The hold covers the fallback models,
    which may answer in place of the one asked for.
    """
    return ledger_pb.ReserveRequest(
        key=key,
        subject=hold_pb2.Subject(turn=turn, tool=tool, model=model),
        sku=sku,
        worst_case=quantities_to_proto(worst_case),
        alternatives=alternatives,
        fallbacks=fallbacks,
        min_output_tokens=min(OUTPUT_TOKENS_MIN, output_tokens(worst_case)),
        # The worker makes the call as soon as this is answered: should it die first, the hold
        # must not be given back, for the call may have been made.
        dispatched=True,
    )


@dataclass(frozen=True)
class ToolHolds:
    episode: RunningEpisode
    steps: StepLog
    turn: int
    files: Sequence[Attachment] = ()
    # Output tokens of the request that an llm tool may write; None for the tool's own limit.
    remaining_tokens: int | None = None

    def of(
        self,
        call: pb.ToolCall,
        tool: toolset_pb2.ResolvedTool,
        alias: str,
        *,
        step: StepKind = StepKind.TOOL,
        reported_as: str = "",
    ) -> ledger_pb.ReserveRequest:
        """Describes a call. An executor's is reported as a call of the composite tool."""
        return hold_request(
            effect_key(self.episode.id, self.turn, step, call.index),
            reported_as or tool.name,
            alias,
            sku_of(tool, alias),
            self._worst_case(call, tool, alias),
            turn=self.turn,
            alternatives=self._alternatives(call, tool, alias),
            fallbacks=[
                hold_pb2.Fallback(model=other, sku=sku_of(tool, other))
                for other in fallback_aliases(alias, tool)
            ],
        )

    def _alternatives(
        self, call: pb.ToolCall, tool: toolset_pb2.ResolvedTool, alias: str
    ) -> tuple[ledger_pb.Alternative, ...]:
        choices = [
            (other, name)
            for other in self.episode.toolset.tools
            if other.name == tool.name or set(other.capabilities) & set(tool.capabilities)
            for name in sorted(other.model_skus) or [""]
            if (other.name, name) != (tool.name, alias)
        ]
        return tuple(
            ledger_pb.Alternative(
                tool=other.name,
                model=name,
                sku=sku_of(other, name),
                worst_case=quantities_to_proto(self._worst_case(call, other, name)),
            )
            for other, name in choices[:ALTERNATIVES_MAX]
        )

    def _worst_case(
        self, call: pb.ToolCall, tool: toolset_pb2.ResolvedTool, alias: str
    ) -> tuple[Quantity, ...]:
        if not kind_of(tool.kind).has_models:
            return call_worst_case(timeout_s(tool))
        context = expert_context(self.steps, self.turn)
        size = sum(len(text.encode()) for text in (self.episode.spec.task, context))
        size += call.ByteSize() + tool.prompt_bytes
        if tool.delegates:
            size += sum(each.ByteSize() for each in self.episode.offered_to_delegates())
        read = tokens_max(size) + file_tokens(self.files, tool, alias)
        return model_worst_case(read, self.output_tokens(tool), timeout_s(tool))

    def output_tokens(self, tool: toolset_pb2.ResolvedTool) -> int:
        maximum = tool.max_output_tokens
        return maximum if self.remaining_tokens is None else min(maximum, self.remaining_tokens)


def tokens_max(text_bytes: int) -> int:
    """Bounds the tokens of a text, with those that a chat template and a role's prompt add.

    English has four bytes to a token, but digits, emoji and rare scripts have one.
    """
    return TEMPLATE_TOKENS + text_bytes


def token_worst_case(input_tokens: int, output_tokens: int) -> tuple[Quantity, ...]:
    return (
        Quantity(Dimension.INPUT_FRESH, Decimal(input_tokens)),
        Quantity(Dimension.OUTPUT_TEXT, Decimal(output_tokens)),
    )


def model_worst_case(
    input_tokens: int, output_tokens: int, timeout_s: float
) -> tuple[Quantity, ...]:
    """Bounds a call of a tool that asks a model: one of the platform's own may have a price per
    second.
    """
    return (*token_worst_case(input_tokens, output_tokens), _seconds(timeout_s))


def call_worst_case(timeout_s: float) -> tuple[Quantity, ...]:
    return Quantity(Dimension.CALL, Decimal(1)), _seconds(timeout_s)


def _seconds(timeout_s: float) -> Quantity:
    return Quantity(Dimension.SECOND, Decimal(str(round(timeout_s, 3))))


def output_tokens(worst_case: tuple[Quantity, ...]) -> int:
    amounts = (entry.amount for entry in worst_case if entry.dimension is Dimension.OUTPUT_TEXT)
    return int(next(amounts, Decimal(0)))


def model_alias(call: pb.ToolCall, tool: toolset_pb2.ResolvedTool) -> str:
    """Returns the model that an llm tool is asked for, or its only one; "" where the call names
    none.

    Every later step uses it: policy, price, hold and request.
    """
    only = next(iter(tool.model_skus)) if len(tool.model_skus) == 1 else None
    named = _arguments(call).get("model", only)
    return named if isinstance(named, str) and named in tool.model_skus else ""


def model_problem(call: pb.ToolCall, tool: toolset_pb2.ResolvedTool | None) -> ToolFailure | None:
    if tool is None or not tool.model_skus or model_alias(call, tool):
        return None
    aliases = ", ".join(sorted(tool.model_skus))
    message = f'the arguments do not fit {tool.name}: "model" must be one of {aliases}'
    return ToolFailure(FailureKind.INVALID_ARGUMENTS, message)


def _arguments(call: pb.ToolCall) -> dict[str, Any]:
    try:
        arguments = json.loads(call.arguments_json or "{}")
    except (ValueError, RecursionError):
        # The adapters report what is wrong with them.
        return {}
    return arguments if isinstance(arguments, dict) else {}


def fallback_aliases(alias: str, tool: toolset_pb2.ResolvedTool) -> list[str]:
    """Returns the tool's other models, in its order.

    The toolset is frozen with the episode: the hold of a retry must name the same ones, even where
    the policy has changed.
    """
    return [other for other in tool.model_aliases if other != alias][:FALLBACKS_MAX]


def timeout_s(tool: toolset_pb2.ResolvedTool) -> float:
    return duration_from_proto(tool.timeout) or DEFAULT_TIMEOUT_S


def sku_of(tool: toolset_pb2.ResolvedTool, alias: str) -> str:
    return tool.model_skus.get(alias, tool.sku)
