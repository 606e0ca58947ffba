"""Text of a model that calls tools by its chat template -> Action.

It may think first. Calls stand in `<tool_call>` tags, as Hermes, Qwen and the paper's checkpoints
write them, or come parsed by the engine; a reply without a call is the answer.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import replace

from orchestrator_inference.action.parser import (
    FINISH_LENGTH,
    THOUGHT,
    THOUGHT_END,
    MalformedAction,
    called,
    checked,
    fitting_answer,
    native_action,
    read_object,
)
from orchestrator_inference.models import CUT_REPLY, Action, Completion, TurnRules
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.text import storable

_FENCE = re.compile(r"\A```(?:json)?|```\Z")
CALL, CALL_END = "<tool_call>", "</tool_call>"
CALL_SHAPE = '<tool_call>{"name": name, "arguments": {...}}</tool_call> to call a tool'


def parse_template_reply(
    completion: Completion,
    tool_names: Collection[str],
    calls_max: int,
    rules: TurnRules,
) -> Action:
    """Every fault of the reply becomes a malformed action instead of an exception."""
    try:
        action = _action(completion, rules.answer_schema)
        checked(action, tool_names, calls_max, rules)
    except MalformedAction as error:
        shape = _shape(rules)
        message = f"{error}. Reply with {shape}."
        return Action(malformed=ToolFailure(FailureKind.MALFORMED_ACTION, message))
    return action


def _shape(rules: TurnRules) -> str:
    if rules.must_call:
        return CALL_SHAPE
    return "the answer" if rules.only_answers else f"{CALL_SHAPE}, or the answer"


def _action(completion: Completion, answer_schema: str) -> Action:
    thought, text = _split(completion.text)
    thought = thought or completion.reasoning.strip()
    if completion.native_calls:
        return replace(native_action(completion), thought=storable(thought or text))
    if completion.finish_reason == FINISH_LENGTH:
        raise MalformedAction(CUT_REPLY)
    if THOUGHT in text:
        raise MalformedAction("the thought has no end")
    bodies = list(_bodies(text))
    if not bodies and CALL in text:
        raise MalformedAction("the call has no end")
    if bodies:
        calls = [
            called(index, read_object(replace(completion, text=body)))
            for index, body in enumerate(bodies)
        ]
        return Action(storable(thought), tuple(calls))
    if not text:
        raise MalformedAction("the reply is empty")
    if answer_schema:
        text = fitting_answer(_FENCE.sub("", text), answer_schema)
    return Action(storable(thought), final_answer=storable(text))


def _split(text: str) -> tuple[str, str]:
    thought, closing, rest = text.partition(THOUGHT_END)
    if not closing:
        return "", text.strip()
    # Some templates open the thought themselves, so that a reply may only close it.
    return thought.strip().removeprefix(THOUGHT).strip(), rest.strip()


def _bodies(text: str) -> Iterator[str]:
    at = text.find(CALL)
    while at >= 0 and (end := text.find(CALL_END, at)) >= 0:
        yield text[at + len(CALL) : end]
        at = text.find(CALL, end)
