"""Tools without an adapter: find_tools, and the functions of the episode's caller."""

import json
from dataclasses import dataclass

from episodes.clients import FittingRequest, RegistryClient
from episodes.errors import InvalidResults
from episodes.execution.tool_calls import ClientResult, arguments_problem
from episodes.keys import StepKind
from episodes.models import Step
from episodes.step_log.log import StepLog, StepLogs
from episodes.step_log.running_episode import RunningEpisode
from episodes.step_log.store_client_results import ClientResultStore
from podium.episodes.v1 import episode_pb2, episode_service_pb2, trajectory_pb2
from podium.episodes.v1 import episode_service_pb2 as pb_service
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.registry.v1 import tool_pb2, toolset_pb2
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.json_schemas.grammar import ACTION_CHARACTERS_MAX, grammar_characters
from podium_kit.wire import duration_to_proto, failure_to_proto

FOUND_MAX = 4
DESCRIPTION_CHARACTERS_MAX = 120


@dataclass(frozen=True)
class ToolFinder:
    registry: RegistryClient

    async def fill(
        self,
        record: trajectory_pb2.ToolInvocation,
        episode: RunningEpisode,
        finder: toolset_pb2.ResolvedTool,
    ) -> None:
        arguments = record.observation.call.arguments_json
        if problem := arguments_problem(arguments, finder.parameters_json_schema):
            failure = ToolFailure(FailureKind.INVALID_ARGUMENTS, f"{finder.name}: {problem}")
            record.observation.failure.CopyFrom(failure_to_proto(failure))
            return
        known = [tool.name for tool in episode.toolset.tools]
        toolset = await self.registry.resolve(
            episode.stored.new.policy_name,
            fitting=FittingRequest(json.loads(arguments)["query"], FOUND_MAX, known),
            price_factors=episode.spec.price_factors,
        )
        # An episode that starts others shares its budget with them from the beginning.
        found = _offerable(
            episode, [tool for tool in toolset.tools if tool.kind != tool_pb2.TOOL_KIND_PODIUM]
        )
        record.found_tools.extend(found)
        lines = [f"{tool.name}: {_short(tool.description)}" for tool in found]
        record.observation.content = "\n".join(
            ["You may call these now:", *lines] if found else ["There is no other tool for that."]
        )


def _offerable(
    episode: RunningEpisode, found: list[toolset_pb2.ResolvedTool]
) -> list[toolset_pb2.ResolvedTool]:
    schemas = [tool.parameters_json_schema for tool in episode.toolset.tools]
    schemas.append(episode.spec.answer_json_schema)
    characters = sum(grammar_characters(schema) for schema in schemas if schema)
    offerable = []
    for tool in found:
        characters += grammar_characters(tool.parameters_json_schema or "{}")
        if characters > ACTION_CHARACTERS_MAX:
            break
        offerable.append(tool)
    return offerable


def _short(text: str) -> str:
    line = " ".join(text.split())
    if len(line) <= DESCRIPTION_CHARACTERS_MAX:
        return line
    return line[: DESCRIPTION_CHARACTERS_MAX - 1].rstrip() + "…"


def wrong_arguments(call: pb.ToolCall, tool: toolset_pb2.ResolvedTool | None) -> ToolFailure | None:
    if tool is None or tool.kind != tool_pb2.TOOL_KIND_CLIENT:
        return None
    problem = arguments_problem(call.arguments_json, tool.parameters_json_schema)
    message = f"the arguments do not fit {tool.name}: {problem}"
    return ToolFailure(FailureKind.INVALID_ARGUMENTS, message) if problem else None


@dataclass(frozen=True)
class ClientCalls:
    logs: StepLogs
    store: ClientResultStore

    async def request(self, log: StepLog, turn: int, calls: list[pb.ToolCall]) -> None:
        if not log.has(turn, StepKind.CLIENT_CALLS):
            requested = episode_pb2.ClientCallsRequested(calls=calls)
            await self.logs.append(log, [(turn, StepKind.CLIENT_CALLS, 0, requested)])

    async def results(self, episode_id: str, turn: int) -> dict[int, ClientResult]:
        stored = await self.store.get(episode_id, turn)
        if stored is None:
            raise AssertionError("the workflow hears of results once they are stored")
        found = pb_service.AnswerToolCallsRequest.FromString(stored.results).results
        return {each.call_index: ClientResult(each, stored.waited_s) for each in found}


def note_result(record: trajectory_pb2.ToolInvocation, result: ClientResult) -> None:
    if result.answer.error:
        failure = ToolFailure(FailureKind.TOOL_ERROR, result.answer.error)
        record.observation.failure.CopyFrom(failure_to_proto(failure))
    else:
        record.observation.content = result.answer.content
        record.gives_answer = result.answer.gives_answer
    record.latency.CopyFrom(duration_to_proto(result.waited_s))


RESULTS_BYTES_MAX = 1024 * 1024


def checked_results(request: episode_service_pb2.AnswerToolCallsRequest, asked: Step) -> bytes:
    """Returns the results of all requested calls, in their order, serialized.

    Raises InvalidResults.
    """
    calls = episode_pb2.ClientCallsRequested.FromString(asked.body).calls
    given = {result.call_index: result for result in request.results}
    if len(given) < len(request.results):
        raise InvalidResults("results answers a call twice; give one result a call")
    if missing := [call for call in calls if call.index not in given]:
        raise InvalidResults(
            f"results lacks call {missing[0].index} ({missing[0].tool_name}); answer all calls of "
            "the turn at once, a failed one with its error"
        )
    if unknown := sorted(set(given) - {call.index for call in calls}):
        raise InvalidResults(f"results answers call {unknown[0]}, which does not wait for you")
    if both := next((each for each in given.values() if each.content and each.error), None):
        raise InvalidResults(f"call {both.call_index} has content and error; give one of them")
    answers = [each for each in given.values() if each.gives_answer]
    if void := next((each for each in answers if not each.content.strip()), None):
        raise InvalidResults(
            f"call {void.call_index} has gives_answer and no content; its content is the answer"
        )
    answered = episode_service_pb2.AnswerToolCallsRequest(
        results=[given[call.index] for call in calls]
    )
    if answered.ByteSize() > RESULTS_BYTES_MAX:
        raise InvalidResults(
            f"the results are over {RESULTS_BYTES_MAX // 1024} KiB together; shorten them"
        )
    return answered.SerializeToString(deterministic=True)
