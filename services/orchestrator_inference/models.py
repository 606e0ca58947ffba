from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from podium_kit.failures import ToolFailure
from podium_kit.metering import Usage
from podium_kit.money import Money

DEFAULT_MAX_TOKENS = 512
# The model's note that its tokens ran out; later turns recognise it by these words.
CUT_REPLY = "the reply was cut at the token limit before it was complete; be brief"


class PromptMode(StrEnum):
    STATELESS = "stateless"
    CHAT = "chat"
    TEMPLATE = "template"


class ResultSection(StrEnum):
    DOCUMENT = "document"
    CODE = "code"
    ATTEMPT = "attempt"


@dataclass(frozen=True)
class Competence:
    """The record in tasks like the episode's, 0 of 0 where they are too few to be stated, and the
    probability of a right answer."""

    similar_task_count: int
    right_count: int
    probability: float


@dataclass(frozen=True)
class CallEstimate:
    """The expected cost and latency of a call; None is unknown.

    `model_alias` is empty where a tool offers no choice of models.
    """

    model_alias: str
    cost: Money | None
    latency_s: float | None
    weight: float = 0.0
    """The tenant's, of calling it."""
    competence: Competence | None = None

    @property
    def record(self) -> str:
        """Returns for example `12 of 14`; empty where there are too few similar tasks."""
        if self.competence is None or not self.competence.similar_task_count:
            return ""
        return f"{self.competence.right_count} of {self.competence.similar_task_count}"


@dataclass(frozen=True)
class PromptTool:
    """Parameters are JSON Schema 2020-12 with an object root."""

    name: str
    description: str
    parameters_json_schema: str
    section: ResultSection = ResultSection.ATTEMPT
    terms: str = ""
    estimates: tuple[CallEstimate, ...] = ()
    gives_answer: bool = False
    """True where the result of a call is the answer of the episode."""

    @property
    def notes(self) -> str:
        """Returns the part of a description that is never cut: for example `$0.01, 1-5 s, 99%;
        right in 12 of 14 similar tasks`."""
        answers = "gives the final answer" if self.gives_answer else ""
        terms = "; ".join(part for part in (self.terms, self._record) if part)
        return ", ".join(part for part in (terms, answers) if part)

    @property
    def _record(self) -> str:
        """Returns for example `right in similar tasks: large 12 of 14, small 3 of 10`."""
        known = [each for each in self.estimates if each.record]
        if known and not known[0].model_alias:
            return f"right in {known[0].record} similar tasks"
        records = ", ".join(f"{each.model_alias} {each.record}" for each in known)
        return f"right in similar tasks: {records}" if records else ""


@dataclass(frozen=True)
class Preferences:
    """The tenant's weights, each in [0, 1]; those of tools are with their estimates."""

    outcome: float
    compute: float
    latency: float


@dataclass(frozen=True)
class Left:
    money: Money | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class ActionToolCall:
    index: int
    tool_name: str
    arguments_json: str
    model_call_id: str = ""


@dataclass(frozen=True)
class Action:
    """Exactly one of calls, final answer and malformed."""

    thought: str = ""
    calls: tuple[ActionToolCall, ...] = ()
    final_answer: str | None = None
    malformed: ToolFailure | None = None


@dataclass(frozen=True)
class Observation:
    call: ActionToolCall
    content: str = ""
    failure: ToolFailure | None = None


@dataclass(frozen=True)
class PastTurn:
    completion_text: str
    action: Action
    observations: tuple[Observation, ...] = ()

    @property
    def was_cut(self) -> bool:
        """True if the completion ran out of tokens before it was an action."""
        return self.action.malformed is not None and CUT_REPLY in self.action.malformed.message


@dataclass(frozen=True)
class Message:
    """The role is "system", "user" or "assistant"."""

    role: str
    content: str


@dataclass(frozen=True)
class Sampling:
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    max_tokens: int = DEFAULT_MAX_TOKENS


@dataclass(frozen=True)
class TurnRules:
    must_answer: bool = False
    must_call: tuple[str, ...] = ()
    """One of these tools, and no answer, unless the turn must answer."""
    answer_schema: str = ""
    """JSON Schema that the answer fits, as JSON; "" takes any text."""
    answering: tuple[str, ...] = ()
    """The tools that give the answer, which a turn that must answer may call."""

    def may_call(self, tool_name: str) -> bool:
        if self.must_answer:
            return tool_name in self.answering
        return not self.must_call or tool_name in self.must_call

    @property
    def only_answers(self) -> bool:
        return self.must_answer and not self.answering


@dataclass(frozen=True)
class Situation:
    key: str
    task: str
    model: str = ""
    prompt_mode: PromptMode = PromptMode.STATELESS
    instruction: str = ""
    tools: tuple[PromptTool, ...] = ()
    turns: tuple[PastTurn, ...] = ()
    history: tuple[Message, ...] = ()
    sampling: Sampling = field(default_factory=Sampling)
    rules: TurnRules = field(default_factory=TurnRules)
    preferences: Preferences | None = None
    left: Left = field(default_factory=Left)
    parallel_calls: int = 0
    """Most calls in the action; 0 means as many as the model was trained to make."""


@dataclass(frozen=True)
class Constraint:
    """The grammar a completion is held to: a JSON Schema, as text, and its SHA-256 (hex)."""

    schema: Mapping[str, Any]
    schema_json: str
    digest: str


@dataclass(frozen=True)
class NativeCall:
    call_id: str
    name: str
    arguments_json: str


@dataclass(frozen=True)
class Completion:
    """One answer of an engine. Ids and log-probabilities are as sampled, or empty."""

    text: str
    finish_reason: str
    usage: Usage
    model_version: str
    engine: str
    latency_s: float
    prompt_token_ids: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    native_calls: tuple[NativeCall, ...] = ()
    constrained: bool = False
    reasoning: str = ""
    """The thought that the engine has taken out of the text; "" where it takes none."""


@dataclass(frozen=True)
class EngineModel:
    """A model an engine serves. Context in tokens, 0 when the engine does not say."""

    name: str
    context_tokens: int = 0
    engine: str = ""
    is_vllm: bool = False
    prompt_digest: str = ""
    is_default: bool = False
    adapts_default: bool = False
    # What an alias means; "" for a model under its own name.
    version: str = ""
    parallel_calls: int = 1
    """Calls that it was trained to make in one turn."""


@dataclass(frozen=True)
class Decision:
    action: Action
    completion: Completion
    sampling: Sampling
    constraint: Constraint | None
    sku: str
    prompt_digest: str
    left_out: tuple[str, ...] = ()
    """Parts of the situation that the prompt had no room for, in words."""
    preference_line: str = ""
    """The prompt's line on weights, limits and the worth of each way."""
