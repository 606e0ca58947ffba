"""Arguments and results against the tool's JSON Schemas (draft 2020-12)."""

import json
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from failures import FailureKind, ToolFailure
from tool_adapters.adapter import Output
from tool_adapters.models import JsonObject, ToolDefinition

PROBLEMS_SHOWN = 3
WORDS_MAX = 300
TOOLS_KEPT = 4096


def arguments_failure(tool: ToolDefinition, arguments: JsonObject) -> ToolFailure | None:
    """Tells the model which argument is wrong and what is expected; None when all fit."""
    problems = _problems(_arguments_validator(tool), arguments)
    if not problems:
        return None
    message = f"the arguments do not fit {tool.name}: {problems}"
    return ToolFailure(FailureKind.INVALID_ARGUMENTS, message)


def result_failure(tool: ToolDefinition, output: Output) -> ToolFailure | None:
    """Why an output is not what the tool promises; None when it is."""
    validator = _result_validator(tool)
    if validator is None:
        return None
    try:
        result = json.loads(output.content_json or output.content)
    except (ValueError, RecursionError):
        return _malformed(tool, "it is not JSON")
    problems = _problems(validator, result)
    return _malformed(tool, problems) if problems else None


def _malformed(tool: ToolDefinition, problems: str) -> ToolFailure:
    message = f"{tool.name} answered something else than it promises: {problems}"
    return ToolFailure(FailureKind.MALFORMED_OUTPUT, message)


@lru_cache(TOOLS_KEPT)
def _arguments_validator(tool: ToolDefinition) -> Draft202012Validator:
    return Draft202012Validator(tool.parameters_schema)


@lru_cache(TOOLS_KEPT)
def _result_validator(tool: ToolDefinition) -> Draft202012Validator | None:
    return Draft202012Validator(tool.result_schema) if tool.result_schema is not None else None


def _problems(validator: Draft202012Validator, instance: Any) -> str:
    errors = sorted(validator.iter_errors(instance), key=lambda error: list(map(str, error.path)))
    shown = "; ".join(_problem(error) for error in errors[:PROBLEMS_SHOWN])
    left_out = len(errors) - PROBLEMS_SHOWN
    return f"{shown}; and {left_out} more" if left_out > 0 else shown


def _problem(error: ValidationError) -> str:
    path = "".join(f"/{part}" for part in error.absolute_path) or "/"
    return f"at {path}: {_cut(error.message)}{_expectation(error)}"


def _expectation(error: ValidationError) -> str:
    """What the schema says about the faulty place, unless the message says it all."""
    if error.validator in {"required", "additionalProperties", "enum", "type"}:
        return ""
    return f" (expected {_cut(json.dumps({error.validator: error.validator_value}))})"


def _cut(words: str) -> str:
    return words if len(words) <= WORDS_MAX else f"{words[:WORDS_MAX]}..."
