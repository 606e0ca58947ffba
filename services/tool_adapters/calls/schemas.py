from functools import lru_cache

from jsonschema import Draft202012Validator

from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.json_schemas.problems import problems
from podium_kit.json_schemas.validators import validator_of
from tool_adapters.adapter import CallFailed, Output, reply_json
from tool_adapters.models import JsonObject, ToolDefinition

TOOLS_KEPT = 4096


def arguments_failure(tool: ToolDefinition, arguments: JsonObject) -> ToolFailure | None:
    """Tells the model which argument is wrong and what is expected; None when all fit."""
    found = problems(_arguments_validator(tool), arguments)
    if not found:
        return None
    message = f"the arguments do not fit {tool.name}: {found}"
    return ToolFailure(FailureKind.INVALID_ARGUMENTS, message)


def result_failure(tool: ToolDefinition, output: Output) -> ToolFailure | None:
    validator = _result_validator(tool)
    if validator is None:
        return None
    try:
        result = reply_json(output.content_json or output.content)
    except CallFailed as error:
        return error.failure
    except (ValueError, RecursionError):
        return _malformed(tool, "it is not JSON")
    found = problems(validator, result)
    return _malformed(tool, found) if found else None


def _malformed(tool: ToolDefinition, problem: str) -> ToolFailure:
    message = f"{tool.name} answered something else than it promises: {problem}"
    return ToolFailure(FailureKind.MALFORMED_OUTPUT, message)


@lru_cache(TOOLS_KEPT)
def _arguments_validator(tool: ToolDefinition) -> Draft202012Validator:
    return validator_of(tool.parameters_schema)


@lru_cache(TOOLS_KEPT)
def _result_validator(tool: ToolDefinition) -> Draft202012Validator | None:
    return validator_of(tool.result_schema) if tool.result_schema is not None else None
