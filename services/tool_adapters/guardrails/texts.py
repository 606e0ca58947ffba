"""The texts of calls, results and answers, in one order for those who read and who replace them."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from podium_kit.failures import ToolFailure
from tool_adapters.adapter import (
    CallFailed,
    ModelConversation,
    ModelFunctionCall,
    ModelMessage,
    Output,
    ToolCall,
    reply_json,
)

MODEL = "model"
# Shorter numbers are neither credentials nor personal data.
NUMBER_MIN = 10_000_000
Change = Callable[[str], str]


@dataclass(frozen=True)
class ReadableCall:
    call: ToolCall

    @property
    def texts(self) -> tuple[str, ...]:
        return _collected(lambda change: _changed_call(self.call, change))

    @property
    def document(self) -> str | None:
        if self.call.conversation is not None:
            return self.call.conversation.messages[-1].content
        return json.dumps(_written(self.call), ensure_ascii=False)

    def with_texts(self, texts: Sequence[str]) -> "ReadableCall":
        return ReadableCall(_changed_call(self.call, _replacing(texts)))


@dataclass(frozen=True)
class ReadableOutcome:
    outcome: Output | ToolFailure

    @property
    def texts(self) -> tuple[str, ...]:
        return _collected(lambda change: _changed_outcome(self.outcome, change))

    @property
    def document(self) -> str | None:
        if isinstance(self.outcome, ToolFailure):
            return None
        return self.outcome.content_json or self.outcome.content

    def with_texts(self, texts: Sequence[str]) -> "ReadableOutcome":
        changed = _changed_outcome(self.outcome, _replacing(texts))
        if isinstance(changed, Output) and changed != self.outcome:
            # They repeat the text, token by token.
            changed = replace(changed, logprobs_json="")
        return ReadableOutcome(changed)


@dataclass(frozen=True)
class ReadableAnswer:
    answer: str

    @property
    def texts(self) -> tuple[str, ...]:
        return _collected(lambda change: _changed_text(self.answer, change))

    @property
    def document(self) -> str | None:
        return self.answer

    def with_texts(self, texts: Sequence[str]) -> "ReadableAnswer":
        return ReadableAnswer(_changed_text(self.answer, _replacing(texts)))


def _collected(walk: Callable[[Change], object]) -> tuple[str, ...]:
    texts: list[str] = []

    def note(text: str) -> str:
        texts.append(text)
        return text

    walk(note)
    return tuple(texts)


def _replacing(texts: Sequence[str]) -> Change:
    following: Iterator[str] = iter(texts)
    return lambda _: next(following)


def _written(call: ToolCall) -> dict[str, Any]:
    """The arguments that the caller wrote: the model that is asked is a name of the registry's."""
    named = {MODEL} if call.model_alias else set()
    return {name: value for name, value in call.arguments.items() if name not in named}


def _changed_call(call: ToolCall, change: Change) -> ToolCall:
    arguments = call.arguments | _changed_json(_written(call), change)
    task, context = (change(text) if text else "" for text in (call.task, call.context))
    conversation = call.conversation
    if conversation is not None:
        conversation = _changed_conversation(conversation, change)
    return replace(call, arguments=arguments, task=task, context=context, conversation=conversation)


def _changed_conversation(conversation: ModelConversation, change: Change) -> ModelConversation:
    messages = tuple(_changed_message(each, change) for each in conversation.messages)
    return replace(conversation, messages=messages)


def _changed_message(message: ModelMessage, change: Change) -> ModelMessage:
    content = change(message.content) if message.content else ""
    return replace(
        message,
        content=content,
        function_calls=_changed_functions(message.function_calls, change),
    )


def _changed_functions(
    calls: Sequence[ModelFunctionCall], change: Change
) -> tuple[ModelFunctionCall, ...]:
    return tuple(replace(each, arguments=_changed_text(each.arguments, change)) for each in calls)


def _changed_outcome(outcome: Output | ToolFailure, change: Change) -> Output | ToolFailure:
    if isinstance(outcome, ToolFailure):
        return replace(outcome, message=change(outcome.message))
    content = _changed_text(outcome.content, change)
    content_json = outcome.content_json
    if content_json == outcome.content:
        content_json = content
    elif content_json:
        content_json = _changed_text(content_json, change)
    calls = _changed_functions(outcome.function_calls, change)
    return replace(outcome, content=content, content_json=content_json, function_calls=calls)


def _changed_text(text: str, change: Change) -> str:
    """Changes the strings of what is JSON, so that it stays JSON whatever is escaped in it."""
    if not text.lstrip().startswith(("{", "[", '"')):
        return change(text) if text else ""
    try:
        value = reply_json(text)
    except (CallFailed, ValueError, RecursionError):
        return change(text)
    changed = _changed_json(value, change)
    return text if changed == value else json.dumps(changed, ensure_ascii=False)


def _changed_json(value: Any, change: Change) -> Any:
    match value:
        case str():
            return change(value) if value else ""
        case dict():
            return {name: _changed_json(each, change) for name, each in value.items()}
        case list():
            return [_changed_json(each, change) for each in value]
        case int() if not isinstance(value, bool) and abs(value) >= NUMBER_MIN:
            changed = change(str(value))
            return value if changed == str(value) else changed
        case _:
            return value
