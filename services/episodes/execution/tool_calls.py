import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator
from referencing.exceptions import Unresolvable

from episodes.execution.outcomes import ChildCall, EpisodeResult
from episodes.keys import StepKind
from episodes.models import PolicyDecision, PolicyQuestion
from episodes.spending.holds import GrantedHold
from episodes.spending.worst_case import OUTPUT_TOKENS_MIN, fallback_aliases
from podium.episodes.v1 import episode_service_pb2 as service_pb
from podium.episodes.v1 import trajectory_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.registry.v1 import tool_pb2, toolset_pb2
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.json_schemas.problems import problems
from podium_kit.json_schemas.validators import validator_of
from podium_kit.tool_kinds import kind_of

# Kinds whose calls reach no service: policies decided about them when the episode started.
LOCAL_KINDS = (tool_pb2.TOOL_KIND_FIND_TOOLS, tool_pb2.TOOL_KIND_CLIENT)
SCHEMAS_MAX = 1024


@dataclass(frozen=True)
class ClientResult:
    """The caller's result of a call, and the seconds that the call waited for it."""

    answer: service_pb.ClientResult
    waited_s: float


@dataclass(frozen=True)
class EpisodeToolCall:
    """A call of one turn; its fields are filled in this order.

    A call is `done` that is in the step log or whose child runs. `fallbacks` are the models that
    the policy lets answer in place of the one asked for, and `guardrails` what reads the call,
    serialized. A `failure` is why the call is not made.
    """

    # The model's decision, and the one tool and model that every later step uses.
    asked: pb.ToolCall
    tool: toolset_pb2.ResolvedTool | None
    model_alias: str = ""
    done: bool = False
    child: ChildCall | None = None
    failure: ToolFailure | None = None
    # The policy's decision, and a person's.
    decision: PolicyDecision | None = None
    fallbacks: frozenset[str] = frozenset()
    guardrails: tuple[bytes, ...] = ()
    approval: trajectory_pb2.ApprovalDecision | None = None
    # The results of an episode and of the caller, which cost this episode nothing.
    ended: EpisodeResult | None = None
    result: ClientResult | None = None
    # What the episode that this one replays recorded of the call, which is then not made.
    recorded: trajectory_pb2.ToolInvocation | None = None
    # The money, and the step.
    hold: GrantedHold | None = None
    record: trajectory_pb2.ToolInvocation | None = None
    # The call of a composite tool whose model wrote this one; None for the orchestrator's own.
    composite: "EpisodeToolCall | None" = None

    @property
    def index(self) -> int:
        return self.asked.index

    @property
    def name(self) -> str:
        return self.asked.tool_name

    @property
    def step(self) -> StepKind:
        return StepKind.TOOL if self.composite is None else StepKind.EXECUTOR

    @property
    def kind(self) -> int:
        return self.tool.kind if self.tool else tool_pb2.TOOL_KIND_UNSPECIFIED

    @property
    def policy_questions(self) -> list[PolicyQuestion]:
        """The call and its fallbacks as the policy decides on them; none for a call that reaches
        no service."""
        tool = self.tool
        named = tool is not None and (self.model_alias or not tool.model_skus)
        if tool is None or not named or self.done or self.kind in LOCAL_KINDS:
            return []
        aliases = [self.model_alias, *fallback_aliases(self.model_alias, tool)]
        return [(tool.name, tool.version, alias) for alias in aliases]

    @property
    def starts_child(self) -> bool:
        return self.child is not None and self.decision is not None and self.denial() is None

    @property
    def asks_caller(self) -> bool:
        is_client = self.kind == tool_pb2.TOOL_KIND_CLIENT
        answered = self.result is not None or self.recorded is not None
        return is_client and self.failure is None and not answered

    @property
    def waits(self) -> bool:
        if self.tool is None or self.decision is None or self.approval is not None:
            return False
        if self.recorded is not None:
            return False
        return self.decision.allowed and (self.tool.needs_approval or self.decision.needs_approval)

    @property
    def is_free(self) -> bool:
        """It spends none of the episode's money: a child and the caller spend their own, and what
        is recorded is not called."""
        answers = (self.ended, self.result, self.recorded)
        finds_tools = self.kind == tool_pb2.TOOL_KIND_FIND_TOOLS
        return finds_tools or any(answer is not None for answer in answers)

    def denial(self, remaining_tokens: int | None = None) -> ToolFailure | None:
        """Returns why the call is not made; an llm tool needs output tokens of the request."""
        if self.tool is None:
            return ToolFailure(
                FailureKind.NOT_FOUND, f"there is no tool {self.name}; use one of the list"
            )
        if self.decision is not None and not self.decision.allowed:
            return ToolFailure(
                FailureKind.DENIED_BY_POLICY,
                f"the policy does not allow {self.name} any more: {self.decision.reason}",
            )
        if self.approval is not None and not self.approval.approved:
            return ToolFailure(
                FailureKind.DENIED_BY_POLICY,
                f"a person did not approve this call of {self.name}; find another way",
            )
        asks_model = kind_of(self.kind).has_models
        if asks_model and remaining_tokens is not None and remaining_tokens < OUTPUT_TOKENS_MIN:
            return ToolFailure(
                FailureKind.LIMIT_EXCEEDED,
                f"the request's output tokens leave {remaining_tokens} for {self.name}; answer"
                " without it",
            )
        return self.failure


def problem_of(instance: Any, schema: str) -> str:
    try:
        return problems(_validator(schema), instance)
    except Unresolvable as error:
        return f"no value fits: $ref {error.ref!r} of the schema is not local"


def arguments_problem(arguments_json: str, schema: str) -> str:
    try:
        return problem_of(json.loads(arguments_json or "{}"), schema)
    except (ValueError, RecursionError) as error:
        return f"they are not JSON: {error}"


@lru_cache(SCHEMAS_MAX)
def _validator(schema: str) -> Draft202012Validator:
    return validator_of(json.loads(schema))
