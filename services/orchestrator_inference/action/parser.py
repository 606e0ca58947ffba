"""Text of a model -> Action.

Under the grammar everything parses unless the completion was cut. An engine without a
grammar may write anything, so every way to be wrong becomes a MALFORMED_ACTION that
tells the model what was wrong.
"""

import json
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from typing import Any, NoReturn

from jsonschema import Draft202012Validator
from referencing.exceptions import Unresolvable

from orchestrator_inference.action.schema import parsed_schema
from orchestrator_inference.models import CUT_REPLY, Action, ActionToolCall, Completion, TurnRules
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.json_schemas.problems import problems
from podium_kit.json_schemas.validators import validator_of
from podium_kit.text import storable

CALL_SHAPE = '{"tool": name, "arguments": {...}} to call a tool'
TEXT_SHAPE, JSON_SHAPE = '{"answer": text}', '{"answer": {...}}'
FINISH_LENGTH = "length"
SCHEMAS_KEPT = 256
THOUGHT, THOUGHT_END = "<think>", "</think>"


class MalformedAction(ValueError):
    pass


def parse_action(
    completion: Completion,
    tool_names: Collection[str],
    calls_max: int,
    rules: TurnRules,
) -> Action:
    """Every fault of the reply becomes a malformed action instead of an exception."""
    try:
        if completion.native_calls:
            action = native_action(completion)
        else:
            action = _action(read_object(completion), rules.answer_schema)
        checked(action, tool_names, calls_max, rules)
    except MalformedAction as error:
        shapes = _shapes(rules)
        message = f"{error}. Reply with {shapes}."
        return Action(malformed=ToolFailure(FailureKind.MALFORMED_ACTION, message))
    return action


def _shapes(rules: TurnRules) -> str:
    answer = JSON_SHAPE if rules.answer_schema else TEXT_SHAPE
    if rules.must_call:
        return CALL_SHAPE
    return answer if rules.only_answers else f"{CALL_SHAPE}, or {answer} to finish"


def read_object(completion: Completion) -> dict[str, Any]:
    text = completion.text
    start = text.find("{", 0 if completion.constrained else _end_of_thoughts(text))
    if start < 0:
        _fail_cut(completion)
        raise MalformedAction("the reply holds no JSON object")
    try:
        value, _ = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        _fail_cut(completion)
        raise MalformedAction(f"the reply is not valid JSON: {_why(error)}") from error
    return value if isinstance(value, dict) else _fail("the reply is not a JSON object")


def _end_of_thoughts(text: str) -> int:
    """The end of a thought that no grammar bounds; fences and tags around it hold no brace."""
    end = 0
    while (opening := text.find(THOUGHT, end)) >= 0 and text.find("{", end, opening) < 0:
        closing = text.find(THOUGHT_END, opening)
        if closing < 0:
            break
        end = closing + len(THOUGHT_END)
    return end


def _fail_cut(completion: Completion) -> None:
    if completion.finish_reason == FINISH_LENGTH:
        raise MalformedAction(CUT_REPLY)


def _why(error: Exception) -> str:
    return error.msg if isinstance(error, json.JSONDecodeError) else str(error)


def _action(fields: dict[str, Any], answer_schema: str) -> Action:
    thought = fields.get("thought", "")
    thought = storable(thought) if isinstance(thought, str) else ""
    if "answer" in fields:
        if {"tool", "calls", "name"} & fields.keys():
            raise MalformedAction("the reply both calls a tool and answers")
        return Action(thought, final_answer=_answer(fields["answer"], answer_schema))
    entries = fields.get("calls", [fields])
    if not isinstance(entries, list) or not entries:
        raise MalformedAction('"calls" is not a list of at least one call')
    return Action(thought, tuple(called(index, entry) for index, entry in enumerate(entries)))


def _answer(answer: Any, schema: str) -> str:
    if schema:
        return fitting_answer(answer, schema)
    if isinstance(answer, str):
        return storable(answer)
    if isinstance(answer, int | float) and not isinstance(answer, bool):
        return json.dumps(answer)
    raise MalformedAction('"answer" is not a string')


def fitting_answer(answer: Any, schema: str) -> str:
    """An answer that a schema is for, as JSON. Raises MalformedAction where it does not fit.

    Engines without a grammar may give it as a text that holds the JSON.
    """
    if isinstance(answer, str):
        try:
            answer = _DECODER.decode(answer)
        except (ValueError, RecursionError) as error:
            raise MalformedAction(f"the answer is not JSON: {_why(error)}") from error
    try:
        problem = problems(_validator(schema), answer)
    except Unresolvable as error:
        raise MalformedAction(
            f"no answer fits: $ref {error.ref!r} of its schema is not local"
        ) from error
    if problem:
        raise MalformedAction(f"the answer does not fit its schema: {problem}")
    return storable(json.dumps(answer, ensure_ascii=False))


@lru_cache(SCHEMAS_KEPT)
def _validator(schema: str) -> Draft202012Validator:
    return validator_of(parsed_schema(schema))


def called(index: int, entry: Any) -> ActionToolCall:
    if not isinstance(entry, dict):
        raise MalformedAction("a call is not a JSON object")
    name = entry.get("tool", entry.get("name"))
    if not isinstance(name, str):
        raise MalformedAction('the reply has neither "tool" nor "answer"')
    arguments = entry.get("arguments", {})
    if not isinstance(arguments, dict):
        raise MalformedAction(f'"arguments" of {name} is not a JSON object')
    return ActionToolCall(index, storable(name), _arguments_json(arguments))


def _arguments_json(arguments: dict[str, Any]) -> str:
    return storable(json.dumps(arguments, ensure_ascii=False, separators=(",", ":")))


def native_action(completion: Completion) -> Action:
    calls = []
    for index, native in enumerate(completion.native_calls):
        raw = native.arguments_json or "{}"
        arguments = read_object(replace(completion, text=raw, constrained=True))
        call = called(index, {"tool": native.name, "arguments": arguments})
        calls.append(replace(call, model_call_id=native.call_id))
    return Action(storable(completion.text), tuple(calls))


def checked(action: Action, tool_names: Collection[str], calls_max: int, rules: TurnRules) -> None:
    others = [call for call in action.calls if not rules.may_call(call.tool_name)]
    if rules.must_answer and others:
        raise MalformedAction(f"this is the last turn and it calls {others[0].tool_name}")
    if rules.must_call and (others or not action.calls):
        raise MalformedAction(f"this turn calls {' or '.join(rules.must_call)}")
    if len(action.calls) > calls_max:
        raise MalformedAction(f"{len(action.calls)} calls at once; at most {calls_max} are allowed")
    for call in action.calls:
        if call.tool_name not in tool_names:
            raise MalformedAction(f"there is no tool {call.tool_name!r}; choose from those listed")


def _finite(digits: str) -> float:
    number = float(digits)
    # Python reads 1e999 as infinity and would write it as no JSON at all.
    return number if abs(number) != float("inf") else _fail(f"{digits[:20]} is out of range")


def _fail(why: str) -> NoReturn:
    raise MalformedAction(why)


# Not strict: xgrammar up to 0.2.8 allows raw control characters in bounded strings.
_DECODER = json.JSONDecoder(
    parse_float=_finite, parse_constant=lambda name: _fail(f"{name} is no JSON"), strict=False
)
