"""Calls of find_tools: the registry is asked for more tools, and later turns may call them."""

import json
from dataclasses import dataclass

from episodes.children.calls import arguments_problem
from episodes.clients import FittingRequest, RegistryClient
from episodes.running_episode import RunningEpisode
from podium.episodes.v1 import trajectory_pb2
from podium.registry.v1 import tool_pb2, toolset_pb2
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.json_schemas.grammar import ACTION_CHARACTERS_MAX, grammar_characters
from podium_kit.wire import failure_to_proto

FOUND_MAX = 4
DESCRIPTION_CHARACTERS_MAX = 120


@dataclass(frozen=True)
class ToolFinder:
    """Finds tools for running episodes."""

    registry: RegistryClient

    async def fill(
        self,
        record: trajectory_pb2.ToolInvocation,
        episode: RunningEpisode,
        finder: toolset_pb2.ResolvedTool,
    ) -> None:
        """Completes the record with what was found. Raises DomainError."""
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
    """The tools whose schemas fit into one grammar together."""
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
