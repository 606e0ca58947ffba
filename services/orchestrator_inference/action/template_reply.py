"""Text of a model that calls tools by its chat template -> Action.

It may think first. Calls stand in `<tool_call>` tags, as Hermes, Qwen and the paper's checkpoints
write them, or come parsed by the engine; a reply without a call is the answer.
"""

import re
from collections.abc import Collection
from dataclasses import replace

from orchestrator_inference.action.parser import (
    FINISH_LENGTH,
    MalformedAction,
    called,
    checked,
    fitting_answer,
    native_action,
    read_object,
)
from orchestrator_inference.models import CUT_REPLY, Action, Completion, TurnRules
from podium_kit.characters import storable
from podium_kit.failures import FailureKind, ToolFailure

# Some templates open the thought themselves, so that a reply may only close it.
_THOUGHT = re.compile(r"\A\s*(?:<think>)?(.*?)</think>", re.DOTALL)
_FENCE = re.compile(r"\A```(?:json)?|```\Z")
_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
CALL_SHAPE = '<tool_call>{"name": name, "arguments": {...}}</tool_call> to call a tool'


def parse_template_reply(
    completion: Completion,
    tool_names: Collection[str],
    calls_max: int,
    rules: TurnRules,
) -> Action:
    """The action of a completion; malformed instead of an exception."""
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
    if completion.native_calls:
        return replace(native_action(completion), thought=storable(thought or text))
    if completion.finish_reason == FINISH_LENGTH:
        raise MalformedAction(CUT_REPLY)
    if "<think>" in text:
        raise MalformedAction("the thought has no end")
    bodies = _CALL.findall(text)
    if not bodies and "<tool_call>" in text:
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
    """What was thought, and what was said."""
    if found := _THOUGHT.match(text):
        return found[1].strip(), text[found.end() :].strip()
    return "", text.strip()
