"""Calls of the caller's own functions: asked of the caller, and recorded as it answers them."""

from dataclasses import dataclass

from episodes.children.calls import arguments_problem
from episodes.keys import StepKind
from episodes.steps.log import StepLog, StepLogs
from episodes.steps.store_client_results import ClientResultStore
from podium.episodes.v1 import episode_pb2, trajectory_pb2
from podium.episodes.v1 import episode_service_pb2 as pb_service
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.registry.v1 import tool_pb2, toolset_pb2
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.wire import duration_to_proto, failure_to_proto


@dataclass(frozen=True)
class ClientResult:
    """What the caller said a call gave, and how many seconds it took to say so."""

    answer: pb_service.ClientResult
    waited_s: float


def is_client_tool(tool: toolset_pb2.ResolvedTool | None) -> bool:
    return tool is not None and tool.kind == tool_pb2.TOOL_KIND_CLIENT


def wrong_arguments(call: pb.ToolCall, tool: toolset_pb2.ResolvedTool | None) -> ToolFailure | None:
    """Why the caller is not even asked to run a call."""
    if tool is None or not is_client_tool(tool):
        return None
    problem = arguments_problem(call.arguments_json, tool.parameters_json_schema)
    message = f"the arguments do not fit {tool.name}: {problem}"
    return ToolFailure(FailureKind.INVALID_ARGUMENTS, message) if problem else None


@dataclass(frozen=True)
class ClientCalls:
    """Asks callers, and takes their answers."""

    logs: StepLogs
    store: ClientResultStore

    async def request(self, log: StepLog, turn: int, calls: list[pb.ToolCall]) -> None:
        """Notes what the caller is to run, for those who watch."""
        if not log.has(turn, StepKind.CLIENT_CALLS):
            requested = episode_pb2.ClientCallsRequested(calls=calls)
            await self.logs.append(log, [(turn, StepKind.CLIENT_CALLS, 0, requested)])

    async def results(self, episode_id: str, turn: int) -> dict[int, ClientResult]:
        """What the caller answered in a turn, by call index."""
        stored = await self.store.get(episode_id, turn)
        if stored is None:
            raise AssertionError("the workflow hears of results once they are stored")
        found = pb_service.AnswerToolCallsRequest.FromString(stored.results).results
        return {each.call_index: ClientResult(each, stored.waited_s) for each in found}


def note_result(record: trajectory_pb2.ToolInvocation, result: ClientResult) -> None:
    """Completes the record with the caller's answer, and how long it took."""
    if result.answer.error:
        failure = ToolFailure(FailureKind.TOOL_ERROR, result.answer.error)
        record.observation.failure.CopyFrom(failure_to_proto(failure))
    else:
        record.observation.content = result.answer.content
    record.latency.CopyFrom(duration_to_proto(result.waited_s))
