"""Calls of tools of kind podium: which episode answers one, and when none may."""

import json
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator
from referencing.exceptions import Unresolvable

from episodes.charges.purchases import timeout_s
from episodes.keys import StepKind, child_episode_id, effect_key
from episodes.running_episode import RunningEpisode
from episodes.workflows.payloads import ChildCall
from podium.episodes.v1 import episode_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.registry.v1 import tool_pb2, toolset_pb2
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.json_schemas.validators import validator_of
from podium_kit.rpc.bounds import bounds_of
from podium_kit.schema_problems import problems

DEFAULT_MAX_DEPTH = 2
TASK_ARGUMENT = "task"
# No more than an episode may be given.
TASK_BYTES_MAX = bounds_of(episode_pb2.EpisodeSpec.DESCRIPTOR.fields_by_name["task"]).max_bytes
SCHEMAS_KEPT = 1024


def child_call(
    episode: RunningEpisode, turn: int, call: pb.ToolCall
) -> ChildCall | ToolFailure | None:
    """The episode that answers a call, or why none can; None when a tool of another kind does."""
    tool = episode.tool(call.tool_name)
    if tool is None or tool.kind != tool_pb2.TOOL_KIND_PODIUM:
        return None
    return (
        _too_deep(episode, tool)
        or _wrong_arguments(call, tool)
        or ChildCall(
            episode_id=child_episode_id(
                episode.id, effect_key(episode.id, turn, StepKind.TOOL, call.index)
            ),
            parent_id=episode.id,
            turn=turn,
            call_index=call.index,
            time_limit_s=timeout_s(tool),
        )
    )


def task_of(call: pb.ToolCall) -> str:
    """What a checked call asks for, in words."""
    return str(json.loads(call.arguments_json)[TASK_ARGUMENT])


def problem_of(instance: Any, schema: str) -> str:
    """Why a value does not fit a JSON Schema; empty when it does."""
    try:
        return problems(_validator(schema), instance)
    except Unresolvable as error:
        return f"no value fits: $ref {error.ref!r} of the schema is not local"


def arguments_problem(arguments_json: str, schema: str) -> str:
    """Why a call's arguments do not fit its tool; empty when they do."""
    try:
        return problem_of(json.loads(arguments_json or "{}"), schema)
    except (ValueError, RecursionError) as error:
        return f"they are not JSON: {error}"


def _too_deep(episode: RunningEpisode, tool: toolset_pb2.ResolvedTool) -> ToolFailure | None:
    limit = tool.podium.max_depth or DEFAULT_MAX_DEPTH
    # The root orchestrator counts as the first.
    orchestrators = episode.spec.parent.depth + 1
    if orchestrators < limit:
        return None
    message = (
        f"{tool.name} was not called: orchestrators may be {limit} deep (its max_depth) and you "
        f"are number {orchestrators}; do it yourself or use another tool"
    )
    return ToolFailure(FailureKind.LIMIT_EXCEEDED, message)


def _wrong_arguments(call: pb.ToolCall, tool: toolset_pb2.ResolvedTool) -> ToolFailure | None:
    problem = _problem_of_call(call.arguments_json, tool.parameters_json_schema)
    if not problem:
        return None
    message = f"the arguments do not fit {tool.name}: {problem}"
    return ToolFailure(FailureKind.INVALID_ARGUMENTS, message)


def _problem_of_call(arguments_json: str, schema: str) -> str:
    if problem := arguments_problem(arguments_json, schema):
        return problem
    task = json.loads(arguments_json or "{}").get(TASK_ARGUMENT)
    if not isinstance(task, str) or not task.strip():
        return "at /task: say in words what to do"
    too_long = len(task.encode()) > TASK_BYTES_MAX
    return f"at /task: longer than {TASK_BYTES_MAX // 1024} KiB" if too_long else ""


@lru_cache(SCHEMAS_KEPT)
def _validator(schema: str) -> Draft202012Validator:
    return validator_of(json.loads(schema))
