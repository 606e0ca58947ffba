"""Calls of tools of kind podium, which episodes of their own answer.

A cancelled parent ends its children first but takes no more turns. Its trajectory refers to them
all the same, or their cost would be in no sum.
"""

import json
from dataclasses import dataclass

from episodes.errors import EpisodeNotFound
from episodes.execution.outcomes import ChildCall, EpisodeResult
from episodes.execution.tool_calls import arguments_problem, problem_of
from episodes.keys import StepKind, child_episode_id, effect_key
from episodes.models import StopReason, StoredEpisode
from episodes.publication.trajectory import STOP_REASON_TO_WIRE, total_cost
from episodes.spending.worst_case import timeout_s
from episodes.step_log.log import Body, StepLog, StepLogs
from episodes.step_log.running_episode import RunningEpisode
from episodes.store import EpisodeStore
from podium.common.v1 import failure_pb2
from podium.episodes.v1 import episode_pb2, trajectory_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.registry.v1 import tool_pb2, toolset_pb2
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.rpc.bounds import bounds_of
from podium_kit.wire import (
    duration_to_proto,
    failure_to_proto,
    money_to_proto,
    optional_money_from_proto,
)

DEFAULT_MAX_DEPTH = 2
TASK_ARGUMENT = "task"
# No more than an episode may be given.
TASK_BYTES_MAX = bounds_of(episode_pb2.EpisodeSpec.DESCRIPTOR.fields_by_name["task"]).max_bytes


def child_call(
    episode: RunningEpisode, turn: int, call: pb.ToolCall
) -> ChildCall | ToolFailure | None:
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
    return str(json.loads(call.arguments_json)[TASK_ARGUMENT])


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


DEFAULT_OUTPUT_BYTES_MAX = 65_536
FAILURE_KINDS = {
    StopReason.TURN_LIMIT: FailureKind.TOOL_ERROR,
    StopReason.OUTPUT_LIMIT: FailureKind.TOOL_ERROR,
    StopReason.BUDGET_EXHAUSTED: FailureKind.BUDGET_EXHAUSTED,
    StopReason.DEADLINE: FailureKind.TIMEOUT,
    StopReason.CANCELLED: FailureKind.CANCELLED,
    StopReason.FAILED: FailureKind.TOOL_ERROR,
    StopReason.DIVERGED: FailureKind.TOOL_ERROR,
}


@dataclass(frozen=True)
class ChildAnswers:
    store: EpisodeStore

    async def find(self, tenant: str, child_id: str) -> StoredEpisode | None:
        try:
            return await self.store.get(tenant, child_id)
        except EpisodeNotFound:
            return None

    async def fill(
        self,
        record: trajectory_pb2.ToolInvocation,
        tenant: str,
        child_id: str,
        tool: toolset_pb2.ResolvedTool,
        result: EpisodeResult,
    ) -> None:
        child = await self.find(tenant, child_id)
        if child is None:
            # It was rejected before it was an episode: its policy, a tool or the model is gone.
            _fail(record, ToolFailure(FailureKind.TOOL_ERROR, result.message))
            return
        record.child.CopyFrom(child_episode(child))
        record.latency.CopyFrom(duration_to_proto(_duration_s(child)))
        failure = _failure(child, tool, result)
        if failure is None and child.ending is not None:
            record.observation.content = child.ending.answer
        else:
            _fail(record, failure or ToolFailure(FailureKind.INTERNAL, result.message))


def child_episode(child: StoredEpisode) -> episode_pb2.ChildEpisode:
    """Summarizes a child, its own children's cost included."""
    sums = episode_pb2.Episode.FromString(child.progress.usage)
    below = optional_money_from_proto(sums.children_cost)
    total = total_cost([child.progress.cost, below])
    message = episode_pb2.ChildEpisode(
        episode_id=child.new.episode_id,
        cost=money_to_proto(total) if total else None,
        unpriced_call_count=child.progress.unpriced_call_count + sums.children_unpriced_call_count,
        usage=sums.usage,
        turn_count=child.progress.turn_count,
    )
    if child.ending is not None:
        message.stop_reason = STOP_REASON_TO_WIRE[child.ending.stop_reason]
    return message


def _failure(
    child: StoredEpisode, tool: toolset_pb2.ResolvedTool, result: EpisodeResult
) -> ToolFailure | None:
    if child.ending is None:
        return ToolFailure(FailureKind.INTERNAL, f"{tool.name} did not end: {result.message}")
    reason = child.ending.stop_reason
    if reason is StopReason.ANSWERED:
        return _wrong_answer(child.ending.answer, tool)
    why = failure_pb2.Failure.FromString(child.ending.failure).message
    message = f"{tool.name} ended without an answer ({reason.value.replace('_', ' ')})"
    return ToolFailure(FAILURE_KINDS[reason], f"{message}: {why}" if why else message)


def _wrong_answer(answer: str, tool: toolset_pb2.ResolvedTool) -> ToolFailure | None:
    maximum = tool.max_output_bytes or DEFAULT_OUTPUT_BYTES_MAX
    if len(answer.encode()) > maximum:
        message = f"{tool.name} answered with more than {maximum} bytes; ask for less"
        return ToolFailure(FailureKind.OUTPUT_TOO_LARGE, message)
    problem = _problem_of_result(answer, tool.result_json_schema)
    if not problem:
        return None
    message = f"{tool.name} answered something else than it promises: {problem}"
    return ToolFailure(FailureKind.MALFORMED_OUTPUT, message)


def _problem_of_result(answer: str, schema: str) -> str:
    if not schema:
        return ""
    try:
        return problem_of(json.loads(answer), schema)
    except (ValueError, RecursionError):
        return "it is not JSON"


def _duration_s(child: StoredEpisode) -> float:
    return (child.end_time - child.create_time).total_seconds() if child.end_time else 0.0


def _fail(record: trajectory_pb2.ToolInvocation, failure: ToolFailure) -> None:
    record.observation.failure.CopyFrom(failure_to_proto(failure))


@dataclass(frozen=True)
class CutOffChildren:
    """Logs the calls of an episode's last turn whose children it no longer waits for."""

    logs: StepLogs
    children: ChildAnswers

    async def log(self, episode: RunningEpisode, steps: StepLog, ended: EpisodeResult) -> None:
        """Logs those calls; `ended` is the episode's own end."""
        turn = max(steps.model_calls, default=0)
        if not turn:
            return
        done: list[tuple[int, StepKind, int, Body]] = []
        for call in steps.model_calls[turn].response.action.tool_calls.calls:
            if steps.has(turn, StepKind.TOOL, call.index):
                continue
            if record := await self._record(episode, turn, call, ended):
                done.append((turn, StepKind.TOOL, call.index, record))
        if done:
            await self.logs.append(steps, done)

    async def _record(
        self, episode: RunningEpisode, turn: int, call: pb.ToolCall, ended: EpisodeResult
    ) -> trajectory_pb2.ToolInvocation | None:
        tool, child = episode.tool(call.tool_name), child_call(episode, turn, call)
        if tool is None or not isinstance(child, ChildCall):
            return None
        tenant = episode.stored.new.tenant
        if await self.children.find(tenant, child.episode_id) is None:
            return None
        record = trajectory_pb2.ToolInvocation(
            key=effect_key(episode.id, turn, StepKind.TOOL, call.index),
            observation=pb.Observation(call=call),
            tool_version=tool.version,
        )
        await self.children.fill(record, tenant, child.episode_id, tool, ended)
        return record
