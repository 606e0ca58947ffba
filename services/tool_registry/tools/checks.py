import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from podium_kit.json_schemas.checks import checked_object, checked_schema, parsed_schema
from podium_kit.json_schemas.errors import UnusableSchema
from podium_kit.json_schemas.loosening import loosened_object
from podium_kit.limits.concurrency import FairThread
from podium_kit.metering import OWN, is_own
from podium_kit.rpc.identity import current_identity
from podium_kit.tool_kinds.checks import InvalidTool
from tool_registry.errors import InvalidSchema
from tool_registry.models import FIND_TOOLS, ToolSpec

PARAMETERS = "parameters_json_schema"
# The argument that a tool passes to the episode that it starts.
TASK_ARGUMENT = "task"
# What a call of an llm tool names its model in.
MODEL_ARGUMENT = "model"


def check_parameters_schema(
    text: str, field: str = PARAMETERS, *, is_schema: bool = False
) -> dict[str, Any]:
    """The schema of a tool's arguments: its root is an object. Raises InvalidSchema.

    `is_schema` says that it is known to be JSON Schema, which takes longest to find out.
    """
    try:
        return checked_object(text, is_schema=is_schema)
    except UnusableSchema as error:
        raise InvalidSchema(field, error.path, error.problem) from error


def check_schema(field: str, text: str) -> dict[str, Any]:
    try:
        return checked_schema(text)
    except UnusableSchema as error:
        raise InvalidSchema(field, error.path, error.problem) from error


def loosened_parameters(text: str, field: str) -> str:
    """A stranger's schema of arguments as one that can be enforced. Raises InvalidSchema."""
    try:
        return json.dumps(loosened_object(parsed_schema(text)).schema)
    except UnusableSchema as error:
        raise InvalidSchema(field, error.path, error.problem) from error


SCHEMAS = FairThread()


async def check_fairly(spec: ToolSpec, shared: bool) -> None:
    """Checks as `check_tool` does. A schema may take a tenth of a second, and a request hold
    hundreds."""
    await SCHEMAS.run(current_identity().tenant, partial(check_tool, spec, shared))


def check_tool(spec: ToolSpec, shared: bool, *, is_schema: bool = False) -> None:
    """Checks the rules beyond the contract's bounds. Raises InvalidTool or InvalidSchema, naming
    what to change. `is_schema` is set where the parameters are known to be JSON Schema.
    """
    if shared and (own := next(filter(is_own, spec.skus), "")):
        raise InvalidTool(
            f"{own} is a SKU that every tenant prices for itself, and a shared tool is the "
            f"operator's to price; name it without {OWN!r}, like tool/{spec.name}"
        )
    if spec.name == FIND_TOOLS:
        raise InvalidTool(f"the platform's own tool is named {FIND_TOOLS}; choose another name")
    if not spec.description.strip():
        raise InvalidTool(f"{spec.name} has no description; the orchestrator chooses by it")
    for at, task in enumerate(spec.example_tasks):
        if not task.strip():
            raise InvalidTool(f"example_tasks[{at}] is blank; give a task as users would put it")
    if spec.connection_kind != spec.kind.name:
        raise InvalidTool(
            f"kind is {spec.kind.name} but the connection is {spec.connection_kind or 'unset'}"
        )
    parameters = check_parameters_schema(spec.parameters_schema, is_schema=is_schema)
    if spec.result_schema:
        check_schema("result_json_schema", spec.result_schema)
    if spec.kind.has_models:
        _check_models(spec, parameters)
    if spec.kind.starts_episode:
        _check_task(parameters)


def _check_task(parameters: Mapping[str, Any]) -> None:
    declared = parameters.get("properties", {}).get(TASK_ARGUMENT)
    typed = isinstance(declared, dict) and declared.get("type") == "string"
    if not typed or TASK_ARGUMENT not in parameters.get("required", []):
        raise InvalidSchema(
            PARAMETERS,
            f"$.properties.{TASK_ARGUMENT}",
            "a tool of kind podium is given its task here: make it a required string",
        )


def _check_models(spec: ToolSpec, parameters: Mapping[str, Any]) -> None:
    if not spec.models:
        raise InvalidTool(f"{spec.name} is of kind {spec.kind.name} and names no model")
    if spec.sku:
        raise InvalidTool("sku is set, but each model of an llm tool has its own")
    aliases = [choice.alias for choice in spec.models]
    if not all(aliases) or len(set(aliases)) != len(aliases):
        raise InvalidTool(f"the models of {spec.name} need different, non-empty aliases")
    declared = parameters.get("properties", {}).get(MODEL_ARGUMENT)
    if declared is not None and _choices(declared) != sorted(aliases):
        raise InvalidSchema(
            PARAMETERS,
            f"$.properties.{MODEL_ARGUMENT}",
            f"its enum must be {', '.join(aliases)}; leave it out and it is made from the aliases",
        )


def check_executor(spec: ToolSpec, executor: ToolSpec | None, *, shared: bool) -> None:
    """Checks a composite tool against the tool that is to run what its models write; None where no
    current tool has the name. Raises InvalidTool.
    """
    if not spec.executor:
        return
    field = f"connection.{spec.kind.name}.executor"
    if executor is None:
        raise InvalidTool(
            f"{field}.tool names {spec.executor}, and there is no such tool"
            f"{' of the platform' if shared else ''}; register it first, or in the same request"
        )
    if not executor.kind.executes:
        raise InvalidTool(
            f"{field}.tool names {spec.executor}, which is of kind {executor.kind.name}; name one"
            " that has no models and starts no episode"
        )
    parameters = json.loads(executor.parameters_schema)
    names = parameters.get("properties", {})
    if spec.executor_argument not in names:
        raise InvalidTool(
            f"{field}.argument is {spec.executor_argument}, and {spec.executor} takes"
            f" {', '.join(names) or 'no arguments'}"
        )
    if others := sorted(set(parameters.get("required", [])) - {spec.executor_argument}):
        raise InvalidTool(
            f"{field}.tool names {spec.executor}, which requires {others[0]} as well; name a tool"
            f" that requires {spec.executor_argument} alone"
        )


def _choices(declared: Any) -> list[str]:
    return sorted(map(str, declared.get("enum", []))) if isinstance(declared, dict) else []
