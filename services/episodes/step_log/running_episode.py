from collections import OrderedDict
from dataclasses import dataclass, replace

from episodes.models import Ending, StoredEpisode
from episodes.step_log.log import StepLog
from episodes.store import EpisodeStore
from podium.episodes.v1 import episode_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.registry.v1 import toolset_pb2
from podium_kit.rpc.identity import Identity, Scope
from podium_kit.tool_kinds import kind_of

CACHED_EPISODES = 4096


@dataclass(frozen=True)
class RunningEpisode:
    stored: StoredEpisode
    spec: episode_pb2.EpisodeSpec
    toolset: toolset_pb2.Toolset

    @property
    def id(self) -> str:
        return self.stored.new.episode_id

    @property
    def identity(self) -> Identity:
        """The worker's identity for its calls: the episode's subject, allowed to post its costs."""
        scopes = frozenset({Scope.LEDGER_WRITE, Scope.EPISODES_RUN})
        new = self.stored.new
        return Identity(new.tenant, new.subject, scopes, new.groups)

    def with_found_tools(self, log: StepLog, turn: int | None = None) -> "RunningEpisode":
        found = {
            tool.name: tool
            for number, calls in sorted(log.tool_calls.items())
            if turn is None or number < turn
            for call in calls.values()
            for tool in call.found_tools
        }
        if not found:
            return self
        toolset = toolset_pb2.Toolset()
        toolset.CopyFrom(self.toolset)
        toolset.tools.extend(tool for name, tool in found.items() if self.tool(name) is None)
        return replace(self, toolset=toolset)

    def tool(self, name: str) -> toolset_pb2.ResolvedTool | None:
        return next((tool for tool in self.toolset.tools if tool.name == name), None)

    def offered_to_delegates(self) -> list[toolset_pb2.ResolvedTool]:
        """Returns the tools of which a delegate may write a call: those that need no model, person,
        caller or episode besides."""
        return [
            tool
            for tool in self.toolset.tools
            if kind_of(tool.kind).executes and not tool.needs_approval
        ]

    def tool_definitions(self) -> list[pb.ToolDefinition]:
        return [definition_of(tool) for tool in self.toolset.tools]


def definition_of(tool: toolset_pb2.ResolvedTool) -> pb.ToolDefinition:
    gives_result = tool.executor if tool.HasField("executor") else tool
    return pb.ToolDefinition(
        name=tool.name,
        description=tool.description,
        terms=tool.terms,
        estimates=tool.estimates,
        parameters_json_schema=tool.parameters_json_schema,
        section=kind_of(gives_result.kind).section,
        gives_answer=tool.gives_answer,
    )


class RunningEpisodes:
    """Loads episodes and caches the ones used last."""

    def __init__(self, store: EpisodeStore) -> None:
        self._store = store
        self._cache: OrderedDict[str, RunningEpisode] = OrderedDict()

    async def get(self, episode_id: str) -> RunningEpisode:
        if episode_id in self._cache:
            self._cache.move_to_end(episode_id)
            return self._cache[episode_id]
        return self.cache(await self._store.load(episode_id))

    def cache(self, stored: StoredEpisode) -> RunningEpisode:
        episode_id = stored.new.episode_id
        if episode_id not in self._cache:
            self._cache[episode_id] = _parse(stored)
        self._cache.move_to_end(episode_id)
        if len(self._cache) > CACHED_EPISODES:
            self._cache.popitem(last=False)
        return self._cache[episode_id]

    async def ending(self, episode_id: str) -> Ending | None:
        return (await self._store.load(episode_id)).ending

    def forget(self, episode_id: str) -> None:
        self._cache.pop(episode_id, None)


def _parse(stored: StoredEpisode) -> RunningEpisode:
    spec = episode_pb2.EpisodeSpec.FromString(stored.new.spec)
    spec.MergeFromString(stored.new.assigned)
    toolset = toolset_pb2.Toolset.FromString(stored.new.toolset)
    spec.model = spec.model or toolset.model
    return RunningEpisode(stored, spec, toolset)
