import logging
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator_inference.engine.engine import ModelCall
from orchestrator_inference.models import Completion, NativeCall
from orchestrator_inference.prompt.budgets import estimated_tokens
from podium_kit.metering import Usage, UsageSource
from podium_kit.metering.usage_reports import vllm_usage
from podium_kit.text import whole_characters

log = logging.getLogger(__name__)

TokenIds = list[Annotated[int, Field(ge=0, lt=2**31)]]


class NotACompletion(ValueError):
    """The body is not what every chat completion is; the message names the field."""


class _Part(BaseModel):
    """Extra fields are other people's; of those that are read, every one has its type."""

    model_config = ConfigDict(strict=True, frozen=True)


class _Function(_Part):
    name: str
    arguments: str | None = None


class _ToolCall(_Part):
    id: str | None = None
    function: _Function


class _Message(_Part):
    content: str | None = None
    # Thoughts that the engine has parsed; the second name is that of older and other servers.
    reasoning: Any = None
    reasoning_content: Any = None
    tool_calls: list[_ToolCall] | None = None


class _Token(_Part):
    logprob: float


class _Logprobs(_Part):
    content: list[_Token] | None = None


class _Choice(_Part):
    message: _Message
    finish_reason: str | None = None
    token_ids: TokenIds | None = None
    logprobs: _Logprobs | None = None


class _Body(_Part):
    choices: list[Any] = Field(min_length=1)
    model: str | None = None
    prompt_token_ids: TokenIds | None = None


def completion_from(
    body: Mapping[str, Any], call: ModelCall, *, latency_s: float, constrained: bool
) -> Completion:
    try:
        read = _Body.model_validate(body)
        choice = _Choice.model_validate(read.choices[0])
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        raise NotACompletion(f"the reply is no chat completion: {'; '.join(faults[:3])}") from error
    message, token_ids = choice.message, tuple(choice.token_ids or ())
    text = whole_characters(message.content or "")
    return Completion(
        text=text,
        finish_reason=whole_characters(choice.finish_reason or ""),
        usage=_usage(body, call, text),
        model_version=whole_characters(read.model or call.model.name),
        engine=call.model.engine if constrained else f"{call.model.engine} (unconstrained)",
        latency_s=latency_s,
        prompt_token_ids=tuple(read.prompt_token_ids or ()),
        token_ids=token_ids,
        logprobs=_logprobs(choice, token_ids),
        native_calls=tuple(map(_native_call, message.tool_calls or ())),
        reasoning=_reasoning(message),
        constrained=constrained,
    )


def _reasoning(message: _Message) -> str:
    named = (message.reasoning, message.reasoning_content)
    return next((whole_characters(text) for text in named if isinstance(text, str)), "")


def _native_call(entry: _ToolCall) -> NativeCall:
    function = entry.function
    texts = (entry.id or "", function.name, function.arguments or "")
    return NativeCall(*map(whole_characters, texts))


def _logprobs(choice: _Choice, token_ids: tuple[int, ...]) -> tuple[float, ...]:
    entries = (choice.logprobs.content if choice.logprobs else None) or []
    if len(entries) != len(token_ids):
        # Without ids they belong to nothing; training must not guess.
        log.warning("%d log-probabilities for %d token ids", len(entries), len(token_ids))
        return ()
    return tuple(entry.logprob for entry in entries)


def _usage(body: Mapping[str, Any], call: ModelCall, text: str) -> Usage:
    reported = body.get("usage")
    usage = vllm_usage(reported, body.get("id")) if isinstance(reported, Mapping) else None
    if usage is not None:
        return usage
    prompt = sum(estimated_tokens(message.content) for message in call.messages)
    return Usage.of(UsageSource.ESTIMATED, input_fresh=prompt, output_text=estimated_tokens(text))
