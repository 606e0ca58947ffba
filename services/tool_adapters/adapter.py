import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

from podium_kit.attachments import AttachedFile
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.limits.json_cost import MARKS_MAX, CostlyJson, require_bounded_json
from podium_kit.metering import Usage, UsageSource
from tool_adapters.models import GuardrailDecision, JsonObject, ToolDefinition


@dataclass(frozen=True)
class ModelFunctionCall:
    """A call of a function that a model asks for; the arguments are as it wrote them."""

    id: str
    name: str
    arguments: str


class AnswerListener(Protocol):
    """Follows a call while it is made. Text and arguments follow those before."""

    def sent(self, usage: Usage, *, timed: bool) -> None: ...
    def wrote(self, text: str) -> None: ...
    def called(self, index: int, part: ModelFunctionCall) -> None: ...


@dataclass
class CutOff:
    """An adapter's knowledge of a call that was cancelled under it.

    `unsent`: nothing of it has left the platform so far; `sent_usage` is what it uses from then on,
    by estimate, and `timed`: its seconds, too.
    """

    usage: Usage | None = None
    sent_usage: Usage | None = None
    content: str = ""
    unsent: bool = False
    timed: bool = False
    listener: AnswerListener | None = None

    def note_sent(self) -> None:
        self.unsent = False
        if self.listener is not None:
            self.listener.sent(self.sent_usage or NOTHING_USED, timed=self.timed)


@dataclass(frozen=True)
class ModelMessage:
    """A message; the role is "system", "user", "assistant" or "tool".

    With files it has parts, which are sent in place of the content. A message with the role "tool"
    is the result of the call `call_id`.
    """

    role: str
    content: str
    parts: tuple[str | AttachedFile, ...] = ()
    function_calls: tuple[ModelFunctionCall, ...] = ()
    call_id: str = ""


@dataclass(frozen=True)
class ModelFunction:
    """A function, as a model reads it; the schema is "" where it has no arguments."""

    name: str
    description: str
    parameters_schema: str
    strict: bool = False


class FunctionChoice(StrEnum):
    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"


@dataclass(frozen=True)
class AnswerOptions:
    """The form of an answer; the defaults leave it to the model.

    `top_logprobs` are the alternatives reported for each token, None for no log-probabilities.
    """

    functions: tuple[ModelFunction, ...] = ()
    choice: FunctionChoice = FunctionChoice.AUTO
    function_name: str = ""
    single_call: bool = False
    answer_schema: JsonObject | None = None
    stop: tuple[str, ...] = ()
    top_logprobs: int | None = None


NO_OPTIONS = AnswerOptions()


@dataclass(frozen=True)
class ModelConversation:
    """A conversation that reaches the model unchanged; None leaves a parameter to the tool or its
    provider.
    """

    messages: tuple[ModelMessage, ...]
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    options: AnswerOptions = NO_OPTIONS


@dataclass(frozen=True)
class ToolCall:
    """One call of a tool; the arguments fit the tool's schema already.

    `task` and `context` are for tools of kind llm, and `conversation` in place of them; `files`
    go with either, and `offered_tools` are those that a delegate may write a call of;
    `max_output_tokens` 0 means the tool's, and `fallback_models` are aliases that may answer
    instead, in that order.
    """

    key: str
    episode_id: str
    tool_name: str
    tool_version: int
    arguments: JsonObject
    task: str
    context: str
    max_output_tokens: int
    tenant: str
    model_alias: str = ""
    fallback_models: tuple[str, ...] = ()
    conversation: ModelConversation | None = None
    files: tuple[AttachedFile, ...] = ()
    offered_tools: tuple[ModelFunction, ...] = ()
    cut: CutOff = field(default_factory=CutOff, compare=False)

    def asking(self, model_alias: str) -> "ToolCall":
        arguments, cut = self.arguments | {"model": model_alias}, CutOff(listener=self.cut.listener)
        return replace(self, arguments=arguments, model_alias=model_alias, cut=cut)


@dataclass(frozen=True)
class OutputFile:
    name: str
    media_type: str
    data: bytes


@dataclass(frozen=True)
class Output:
    """Text, the same as JSON ("" when it is not JSON), and files.

    A model may ask for functions as well, and report log-probabilities as JSON.
    """

    content: str
    content_json: str = ""
    files: tuple[OutputFile, ...] = ()
    function_calls: tuple[ModelFunctionCall, ...] = ()
    logprobs_json: str = ""

    @property
    def size_bytes(self) -> int:
        """The JSON form repeats the text and is not counted."""
        text = self.content + "".join(call.arguments for call in self.function_calls)
        size = len(text) if text.isascii() else len(text.encode())
        files = (len(file.name) + len(file.media_type) + len(file.data) for file in self.files)
        return size + sum(files)


ONE_CALL = Usage.of(UsageSource.MEASURED, call=1)
NOTHING_USED = Usage((), UsageSource.MEASURED)


@dataclass(frozen=True)
class AdapterResult:
    """The result of one attempt. `sku` "" leaves the tool's own; llm tools name their model's.

    `unsent`: nothing of it left the platform.
    """

    outcome: Output | ToolFailure
    usage: Usage = ONE_CALL
    sku: str = ""
    unsent: bool = False
    finish_reason: str = ""


@dataclass(frozen=True)
class Answer:
    """The service's answer to a call: the outcome, its usage and its latency.

    `latency_s` runs from the first attempt to the answer, in seconds, or is that of a simulated
    model. `model_alias` is the model of an llm tool that answered, whose price `sku` is.
    `unsent`: no attempt left the platform, and the tool's owner does not charge for that.
    """

    outcome: Output | ToolFailure
    usage: Usage
    sku: str
    latency_s: float
    attempts: int
    model_alias: str = ""
    latency_modelled: bool = False
    unsent: bool = False
    finish_reason: str = ""
    guardrails: tuple[GuardrailDecision, ...] = ()
    cached: bool = False


class CallFailed(Exception):
    """Carries a typed failure up to the service, from where an adapter cannot continue.

    `unsent`: nothing of the call had left the platform.
    """

    def __init__(
        self, kind: FailureKind, message: str, retryable: bool = False, *, unsent: bool = False
    ) -> None:
        super().__init__(message)
        self.failure = ToolFailure(kind, message, retryable)
        self.unsent = unsent

    @classmethod
    def of(cls, failure: ToolFailure) -> "CallFailed":
        error = cls(failure.kind, failure.message)
        error.failure = failure
        return error


class Adapter:
    """Speaks to one kind of tool.

    The service has checked the arguments and limits time, concurrency and size around
    it. A tool that fails is a ToolFailure in the result; an exception is a fault of
    ours. A cancelled `invoke` must leave nothing running.
    """

    async def invoke(self, call: ToolCall, tool: ToolDefinition) -> AdapterResult:
        raise NotImplementedError

    async def close_episode(self, tenant: str, episode_id: str) -> None:
        """Frees what a tenant's episode holds; an unknown episode is fine."""

    async def close(self) -> None:
        """Frees everything; no call follows."""


class LateAdapter(Adapter):
    """Made by its first call, so that the service starts without its library."""

    def __init__(self, make: Callable[[], Adapter]) -> None:
        self._make = make
        self._made: Adapter | None = None
        self._making = asyncio.Lock()

    async def invoke(self, call: ToolCall, tool: ToolDefinition) -> AdapterResult:
        async with self._making:
            if self._made is None:
                # In a thread: others are served meanwhile.
                self._made = await asyncio.to_thread(self._make)
        return await self._made.invoke(call, tool)

    async def close_episode(self, tenant: str, episode_id: str) -> None:
        if self._made is not None:
            await self._made.close_episode(tenant, episode_id)

    async def close(self) -> None:
        if self._made is not None:
            await self._made.close()


def reply_json(body: str | bytes, marks_max: int = MARKS_MAX) -> Any:
    """Raises CallFailed for too many values; ValueError and RecursionError for what is no JSON."""
    raw = body.encode(errors="surrogatepass") if isinstance(body, str) else body
    try:
        require_bounded_json(raw, marks_max)
    except CostlyJson as error:
        message = f"the JSON of the answer {error}; ask for less"
        raise CallFailed(FailureKind.OUTPUT_TOO_LARGE, message) from error
    # By itself json also reads UTF-16, in which other bytes are commas.
    return json.loads(body if isinstance(body, str) else raw.decode("utf-8-sig"))
