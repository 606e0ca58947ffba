"""The grammar of an action: one JSON Schema built from the tools.

A call is {"thought"?, "tool", "arguments"}, an answer is {"thought"?, "answer"}. With
parallel calls allowed, calls are {"thought"?, "calls": [{"tool", "arguments"}, ...]}.
What an engine samples under this grammar is what `action_parser` reads.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from orchestrator_inference.errors import InvalidAnswerSchema, InvalidToolSchema
from orchestrator_inference.models import Constraint, PromptTool, ResultSection, TurnRules
from podium_kit.json_schemas.grammar import ACTION_CHARACTERS_MAX, SchemaLimits, normalise
from podium_kit.json_schemas.inlining import GrammarSize, SchemaError


class Bounds(IntEnum):
    """The strings and numbers of an action that are bounded; a level includes those below.

    Bounding has a price: xgrammar up to 0.2.8 lets a string with a length bound hold no escape, so
    no newline and no double quote (https://github.com/mlc-ai/xgrammar/issues/800). Hence the
    levels: a code argument needs newlines, and a capable model needs no bounds at all.
    """

    THOUGHT = 0
    PROSE = 1
    CODE = 2


@dataclass(frozen=True)
class ActionLimits:
    max_tokens: int
    bounds: Bounds

    @property
    def thought_chars(self) -> int:
        """About an eighth of the completion at four characters a token."""
        return max(1, self.max_tokens // 2)

    @property
    def answer_chars(self) -> int | None:
        """About half of the completion, because rare text has two characters a token."""
        return max(1, self.max_tokens * 2) if self.bounds >= Bounds.PROSE else None

    def arguments(self, *, is_code: bool) -> SchemaLimits:
        """Limits of a tool's arguments: shorter than an answer, as there may be several."""
        bounded = self.bounds >= (Bounds.CODE if is_code else Bounds.PROSE)
        return SchemaLimits(max(1, self.max_tokens) if bounded else None)


@dataclass(frozen=True)
class ActionOptions:
    max_tokens: int
    rules: TurnRules = field(default_factory=TurnRules)
    parallel_calls_max: int = 1
    bounds: Bounds = Bounds.PROSE
    any_whitespace: bool = False


def build_constraint(tools: Sequence[PromptTool], options: ActionOptions) -> Constraint:
    """The same tools and options give the same bytes. Raises InvalidToolSchema."""
    schema = action_schema(tools, options)
    # Not sorted: grammars follow the order of properties, so it is part of the schema.
    text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    # The engine's grammar differs with white space, so the digest does too.
    hashed = f"any_whitespace={options.any_whitespace}\n{text}"
    return Constraint(schema, text, hashlib.sha256(hashed.encode()).hexdigest())


def action_schema(tools: Sequence[PromptTool], options: ActionOptions) -> dict[str, Any]:
    limits = ActionLimits(options.max_tokens, options.bounds)
    thought = {"type": "string", "maxLength": limits.thought_chars}
    size = GrammarSize(ACTION_CHARACTERS_MAX)
    calls = [_call(tool, limits, size) for tool in tools if options.rules.may_call(tool.name)]
    if calls and options.parallel_calls_max > 1:
        calls = [{"calls": _array(calls, options.parallel_calls_max)}]
    answers = [] if options.rules.must_call else [{"answer": _answer(options.rules, limits, size)}]
    shapes = [_closed({"thought": thought, **shape}, shape) for shape in (*calls, *answers)]
    return {"anyOf": shapes} if len(shapes) > 1 else shapes[0]


def _answer(rules: TurnRules, limits: ActionLimits, size: GrammarSize) -> dict[str, Any]:
    if not rules.answer_schema:
        return _string(limits.answer_chars)
    try:
        parsed = parsed_schema(rules.answer_schema)
        schema = normalise(parsed, SchemaLimits(limits.answer_chars), size)
    except SchemaError as error:
        raise InvalidAnswerSchema(str(error)) from error
    return dict(schema)


def _call(tool: PromptTool, limits: ActionLimits, size: GrammarSize) -> dict[str, Any]:
    is_code = tool.section is ResultSection.CODE
    try:
        arguments = normalise(parameters_of(tool), limits.arguments(is_code=is_code), size)
    except SchemaError as error:
        raise InvalidToolSchema(tool.name, str(error)) from error
    return {"tool": {"const": tool.name}, "arguments": arguments}


def parameters_of(tool: PromptTool) -> Mapping[str, Any]:
    """No text means no parameters. Raises InvalidToolSchema."""
    try:
        return parsed_schema(tool.parameters_json_schema or "{}")
    except SchemaError as error:
        raise InvalidToolSchema(tool.name, str(error)) from error


def parsed_schema(text: str) -> Mapping[str, Any]:
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise SchemaError(f"not JSON: {error}") from error
    from jsonschema_rs import meta

    if not meta.is_valid(schema):
        raise SchemaError("not a JSON Schema")
    return schema if isinstance(schema, dict) else {}


def _array(calls: Sequence[dict[str, Any]], calls_max: int) -> dict[str, Any]:
    items = [_closed(call, call) for call in calls]
    return {"type": "array", "items": {"anyOf": items}, "minItems": 1, "maxItems": calls_max}


def _string(chars_max: int | None) -> dict[str, Any]:
    return {"type": "string"} if chars_max is None else {"type": "string", "maxLength": chars_max}


def _closed(properties: Mapping[str, Any], required: Iterable[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }
