"""Tool calls: the policy's decision, the person's, and the record of their result."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from cachetools import TTLCache
from jsonschema import Draft202012Validator
from referencing.exceptions import Unresolvable

from episodes.execution.outcomes import ChildCall, EpisodeResult
from episodes.models import PlannedCall, PolicyDecision
from episodes.spending.holds import OUTPUT_TOKENS_MIN, Grant
from episodes.spending.worst_case import fallback_aliases, model_alias, timeout_s
from episodes.step_log.running_episode import RunningEpisode
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.episodes.v1 import episode_service_pb2 as pb_service
from podium.episodes.v1 import trajectory_pb2
from podium.ledger.v1 import hold_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.registry.v1 import tool_pb2, toolset_pb2
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.json_schemas.problems import problems
from podium_kit.json_schemas.validators import validator_of
from podium_kit.rpc.identity import Identity
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


KEPT_S = 0.5
DECISIONS_KEPT = 50_000


class Policies(Protocol):
    """Where decisions come from: the registry, as the episode's subject."""

    async def check(self, policy: str, calls: Sequence[PlannedCall]) -> list[PolicyDecision]:
        """One per call, in order. Raises Unavailable and its like."""


class PolicyChecks:
    """Decisions, remembered for half a second: a caller's episodes make the same calls."""

    def __init__(self, policies: Policies, clock: Callable[[], float] = time.monotonic) -> None:
        self._policies = policies
        self._known: TTLCache[tuple[Identity, str, PlannedCall], PolicyDecision] = TTLCache(
            DECISIONS_KEPT, KEPT_S, clock
        )

    async def decide(
        self, episode: RunningEpisode, calls: Sequence[PlannedCall]
    ) -> list[PolicyDecision]:
        """One per call, in order, under the policy the episode asked for as it is now."""
        caller, policy = episode.identity, episode.spec.policy
        found: dict[PlannedCall, PolicyDecision | None] = {
            call: self._known.get((caller, policy, call)) for call in calls
        }
        missing = [call for call, decision in found.items() if decision is None]
        if missing:
            fresh = await self._policies.check(policy, missing)
            for call, fresh_one in zip(missing, fresh, strict=True):
                found[call] = self._known[caller, policy, call] = fresh_one
        return [decision for call in calls if (decision := found[call]) is not None]


def planned_call(call: pb.ToolCall, tool: toolset_pb2.ResolvedTool) -> PlannedCall:
    """A call as the policy decides on it."""
    return PlannedCall(tool.name, tool.version, model_alias(call, tool))


def planned_fallbacks(call: pb.ToolCall, tool: toolset_pb2.ResolvedTool) -> list[PlannedCall]:
    """The calls that may take its place, as the policy decides on them."""
    aliases = fallback_aliases(call, tool)
    return [PlannedCall(tool.name, tool.version, alias) for alias in aliases]


Verdict = Grant | ToolFailure


@dataclass(frozen=True)
class ClientResult:
    """What the caller said a call gave, and how many seconds it took to say so."""

    answer: pb_service.ClientResult
    waited_s: float


@dataclass(frozen=True)
class ToolCallPlan:
    """A call, its tool, and what the policy and a person decided about it.

    Without a decision of the policy the call is done already, or its child was started.
    `fallbacks` are the models that the policy lets answer in place of the one asked for.
    `problem` says why the call cannot be made; `result` is what the episode's caller answered.
    """

    call: pb.ToolCall
    tool: toolset_pb2.ResolvedTool | None
    decision: PolicyDecision | None = None
    fallbacks: frozenset[str] = frozenset()
    approval: trajectory_pb2.ApprovalDecision | None = None
    child: ChildCall | None = None
    problem: ToolFailure | None = None
    ended: EpisodeResult | None = None
    result: ClientResult | None = None

    @property
    def starts_child(self) -> bool:
        """Whether an episode of its own is to answer it, and nothing forbids that."""
        allowed = self.decision is not None and _denial(self) is None
        return allowed and self.child is not None

    @property
    def finds_tools(self) -> bool:
        return self.tool is not None and self.tool.kind == tool_pb2.TOOL_KIND_FIND_TOOLS

    @property
    def asks_caller(self) -> bool:
        """Whether the episode's caller is to run it, and has not answered yet."""
        return is_client_tool(self.tool) and self.problem is None and self.result is None

    @property
    def waits(self) -> bool:
        if self.tool is None or self.decision is None or self.approval is not None:
            return False
        asked = self.tool.needs_approval or self.decision.needs_approval
        return asked and self.decision.allowed


def _denial(plan: ToolCallPlan, tokens_left: int | None = None) -> ToolFailure | None:
    """Why a call is not even tried."""
    if plan.tool is None:
        return ToolFailure(
            FailureKind.NOT_FOUND, f"there is no tool {plan.call.tool_name}; use one of the list"
        )
    name = plan.call.tool_name
    if plan.decision is not None and not plan.decision.allowed:
        return ToolFailure(
            FailureKind.DENIED_BY_POLICY,
            f"the policy does not allow {name} any more: {plan.decision.reason}",
        )
    if plan.approval is not None and not plan.approval.approved:
        return ToolFailure(
            FailureKind.DENIED_BY_POLICY,
            f"a person did not approve this call of {name}; find another way",
        )
    asks_model = plan.tool.kind == tool_pb2.TOOL_KIND_LLM
    if asks_model and tokens_left is not None and tokens_left < OUTPUT_TOKENS_MIN:
        return ToolFailure(
            FailureKind.LIMIT_EXCEEDED,
            f"the request's output tokens leave {tokens_left} for {name}; answer without it",
        )
    return plan.problem


SCHEMAS_KEPT = 1024


def problem_of(instance: Any, schema: str) -> str:
    """Why a value does not fit a JSON Schema; empty when it does."""
    try:
        return problems(_validator(schema), instance)
    except Unresolvable as error:
        return f"no value fits: $ref {error.ref!r} of the schema is not local"


def arguments_problem(arguments_json: str, schema: str) -> str:
    """Why a call's arguments do not fit its tool; empty when they do."""
    try:
        return problem_of(json.loads(arguments_json or "{}"), schema)
    except (ValueError, RecursionError) as error:
        return f"they are not JSON: {error}"


@lru_cache(SCHEMAS_KEPT)
def _validator(schema: str) -> Draft202012Validator:
    return validator_of(json.loads(schema))


def is_client_tool(tool: toolset_pb2.ResolvedTool | None) -> bool:
    return tool is not None and tool.kind == tool_pb2.TOOL_KIND_CLIENT
