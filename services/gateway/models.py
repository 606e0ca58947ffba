from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Decimal
from enum import StrEnum
from typing import Literal

from gateway.tally import Tally
from podium_kit.attachments import AttachedFile
from podium_kit.failures import ToolFailure
from podium_kit.metering import Dimension
from podium_kit.money import Money


class StopReason(StrEnum):
    ANSWERED = "answered"
    TURN_LIMIT = "turn_limit"
    BUDGET_EXHAUSTED = "budget_exhausted"
    DEADLINE = "deadline"
    CANCELLED = "cancelled"
    FAILED = "failed"
    OUTPUT_LIMIT = "output_limit"
    DIVERGED = "diverged"


class PromptMode(StrEnum):
    """The form of earlier turns in the prompt."""

    STATELESS = "stateless"
    CHAT = "chat"
    TEMPLATE = "template"


@dataclass(frozen=True)
class EarlierMessage:
    role: str
    content: str


@dataclass(frozen=True)
class ClientTool:
    """A function that a client offers to its episode, and runs."""

    name: str
    description: str
    parameters_schema: str
    strict: bool = False


@dataclass(frozen=True)
class ClientCall:
    """A call of such a function, which its episode waits for."""

    turn: int
    index: int
    name: str
    arguments: str
    # The id that a model without an orchestrator gave it.
    id: str = ""


@dataclass(frozen=True)
class MadeCall:
    """A call that the platform made: what it gave, or why it gave nothing."""

    turn: int
    index: int
    name: str
    arguments: str
    content: str
    problem: str


@dataclass(frozen=True)
class SentMessage:
    """A message as its client wrote it, for a model without an orchestrator.

    One with the role "tool" is the result of the call `call_id`.
    """

    role: str
    content: str
    calls: tuple[ClientCall, ...] = ()
    call_id: str = ""


@dataclass(frozen=True)
class AnswerStyle:
    """Options of an answer by a model without an orchestrator, beside its sampling."""

    choice: Literal["auto", "none", "required"] = "auto"
    single_call: bool = False
    stop: tuple[str, ...] = ()
    top_logprobs: int | None = None


NO_STYLE = AnswerStyle()


@dataclass(frozen=True)
class ToolResults:
    """The results of a turn's calls: content by the call's position."""

    episode_id: str
    turn: int
    contents: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class OrderFile:
    """A file of a request, and the parameter that it is in; without bytes it is kept already."""

    file: AttachedFile
    param: str


@dataclass(frozen=True)
class PriorMessages:
    messages: tuple[EarlierMessage, ...] = ()
    files: tuple[OrderFile, ...] = ()


NO_PRIOR_MESSAGES = PriorMessages()


@dataclass(frozen=True)
class KeptRequest:
    """A label of an episode, the tools that it was kept to, and its client's functions."""

    label: str = ""
    tool_names: tuple[str, ...] = ()
    client_tools: tuple[ClientTool, ...] = ()


@dataclass(frozen=True)
class ListOrder:
    task: str
    history: tuple[EarlierMessage, ...]
    model: str
    policy: str
    tool_names: tuple[str, ...]
    client_tools: tuple[ClientTool, ...]
    first_tools: tuple[str, ...]
    answer_schema: str
    turn_limit: int
    time_limit_s: float | None
    budget: Money | None
    prompt_mode: PromptMode | None
    labels: dict[str, str]
    max_tokens: int
    temperature: float | None
    top_p: float | None
    seed: int | None
    parallel_calls: int = 0
    """Most calls in one turn; 0 leaves it to the policy and the model."""
    files: tuple[OrderFile, ...] = ()
    messages: tuple[SentMessage, ...] = ()
    style: AnswerStyle = NO_STYLE
    streams: bool = False
    """The client is shown the answer while it is written."""

    def choice(self, index: int, count: int) -> "ListOrder":
        """The order of one of several choices: an equal share of the budget, a seed of its own."""
        if count == 1:
            return self
        return replace(
            self,
            budget=self.budget and _share(self.budget, count),
            seed=None if self.seed is None else _wrapped(self.seed + index),
        )


def _share(budget: Money, count: int) -> Money:
    """Rounded down: all shares together are never more than the whole."""
    share = (budget.amount / count).quantize(Decimal("1e-12"), ROUND_DOWN)
    return Money(share, budget.currency_code)


def _wrapped(seed: int) -> int:
    """Within 64 bits, as engines take it."""
    return (seed + 2**63) % 2**64 - 2**63


@dataclass(frozen=True)
class Outcome:
    """The end of an episode; or its state, when it waits for calls that its client is to run.

    The tally is of what a request spent of it, the rest is of the whole episode.
    """

    episode_id: str
    stop_reason: StopReason | None
    answer: str
    failure: ToolFailure | None
    turn_count: int
    tool_call_count: int
    cost: Money | None
    unpriced_call_count: int
    tally: Tally
    policy_name: str
    policy_version: int
    client_calls: tuple[ClientCall, ...] = ()
    # Of the request, oldest first, where the request shows them.
    made_calls: tuple[MadeCall, ...] = ()
    # What the answer was cut at; "" for a whole one.
    stop_sequence: str = ""
    # Why its model gave no whole answer: "content_filter" or "refusal"; "" for a whole one.
    declined: str = ""
    # What its model was not shown.
    warnings: tuple[str, ...] = ()
    # As OpenAI's chat completions show them; "" where none were asked for.
    logprobs_json: str = ""
    all_tool_calls_failed: bool = False
    # An earlier answer of the policy's cache, given again.
    cached: bool = False

    def tokens(self, dimensions: frozenset[Dimension]) -> int:
        return int(sum((self.tally.get(each, Decimal(0)) for each in dimensions), Decimal(0)))


@dataclass(frozen=True)
class EmbeddingOrder:
    """Texts that a model of a tool is to turn into vectors; None leaves their length to it."""

    tool: str
    alias: str
    policy: str
    texts: tuple[str, ...]
    dimensions: int | None
    budget: Money | None
    labels: dict[str, str]


@dataclass(frozen=True)
class Vectors:
    """Vectors of texts, in their order: base64 of little-endian floats of 32 bits."""

    packed: tuple[str, ...]
    failure: ToolFailure | None
    cost: Money | None
    tally: Tally
    policy_name: str
    policy_version: int

    @property
    def tokens(self) -> int:
        return int(sum(self.tally.values(), Decimal(0)))


@dataclass(frozen=True)
class ProgressNote:
    """Something that happened: a line for a person who waits, and what it used."""

    turn: int
    line: str
    tally: Tally


@dataclass(frozen=True)
class CallPart:
    """A piece of a model's call of a function: the id and the name are in the first one."""

    index: int
    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class AnswerPart:
    """The text of an answer, and calls of a model without an orchestrator, written since the part
    before.
    """

    text: str
    calls: tuple[CallPart, ...] = ()


@dataclass(frozen=True)
class ToolModels:
    name: str
    aliases: tuple[str, ...]


@dataclass(frozen=True)
class OrchestratorModel:
    name: str
    version: str
    is_default: bool
    context_tokens: int
