"""What a child episode that has ended is to the call that started it."""

import json
from dataclasses import dataclass

from episodes.children.calls import problem_of
from episodes.errors import EpisodeNotFound
from episodes.models import StopReason, StoredEpisode
from episodes.stop_reasons import STOP_REASON_TO_WIRE
from episodes.store import EpisodeStore
from episodes.stream.trajectory import total_cost
from episodes.workflows.payloads import EpisodeResult
from podium.common.v1 import failure_pb2
from podium.episodes.v1 import episode_pb2, trajectory_pb2
from podium.registry.v1 import toolset_pb2
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.wire import (
    duration_to_proto,
    failure_to_proto,
    money_to_proto,
    optional_money_from_proto,
)

DEFAULT_OUTPUT_BYTES_MAX = 65_536
FAILURE_KINDS = {
    StopReason.TURN_LIMIT: FailureKind.TOOL_ERROR,
    StopReason.OUTPUT_LIMIT: FailureKind.TOOL_ERROR,
    StopReason.BUDGET_EXHAUSTED: FailureKind.BUDGET_EXHAUSTED,
    StopReason.DEADLINE: FailureKind.TIMEOUT,
    StopReason.CANCELLED: FailureKind.CANCELLED,
    StopReason.FAILED: FailureKind.TOOL_ERROR,
}


@dataclass(frozen=True)
class ChildAnswers:
    """Reads what children came to."""

    store: EpisodeStore

    async def find(self, child_id: str) -> StoredEpisode | None:
        """The child; None when it never was an episode."""
        try:
            return await self.store.load(child_id)
        except EpisodeNotFound:
            return None

    async def fill(
        self,
        record: trajectory_pb2.ToolInvocation,
        child_id: str,
        tool: toolset_pb2.ResolvedTool,
        result: EpisodeResult,
    ) -> None:
        """Writes answer or failure, and what the child took, into the call's record."""
        child = await self.find(child_id)
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
    """What it took, its own children included in the cost."""
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
    """Why the child's answer is none; None when it is one."""
    if child.ending is None:
        return ToolFailure(FailureKind.INTERNAL, f"{tool.name} did not end: {result.message}")
    reason = child.ending.stop_reason
    if reason is StopReason.ANSWERED:
        return _wrong_answer(child.ending.answer, tool)
    why = failure_pb2.Failure.FromString(child.ending.failure).message
    message = f"{tool.name} ended without an answer ({reason.value.replace('_', ' ')})"
    return ToolFailure(FAILURE_KINDS[reason], f"{message}: {why}" if why else message)


def _wrong_answer(answer: str, tool: toolset_pb2.ResolvedTool) -> ToolFailure | None:
    """Why an answer is not what the tool promises."""
    most = tool.max_output_bytes or DEFAULT_OUTPUT_BYTES_MAX
    if len(answer.encode()) > most:
        message = f"{tool.name} answered with more than {most} bytes; ask for less"
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
