from dataclasses import dataclass

from temporalio import activity

from episodes.admission.checks import ToolOffers, admit
from episodes.clients import OrchestratorModels
from episodes.errors import InvalidEpisode
from episodes.execution.children import task_of
from episodes.execution.outcomes import ChildCall
from episodes.spending.shared_budget import shared_budget_id
from episodes.step_log.log import StepLogs
from episodes.step_log.running_episode import RunningEpisode, RunningEpisodes
from episodes.store import EpisodeStore
from episodes.workflows.activities import activity_errors, heartbeats
from episodes.workflows.episode_workflow import ADMIT_CHILD
from episodes.workflows.payloads import EpisodeInput
from episodes.workflows.search_attributes import episode_input
from podium.episodes.v1 import episode_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.registry.v1 import tool_pb2
from podium_kit import telemetry
from podium_kit.rpc.identity import acting_as
from podium_kit.wire import duration_to_proto


@dataclass(frozen=True)
class AdmitChildActivity:
    """Admits child episodes, as the subject of the episode that calls."""

    episodes: RunningEpisodes
    logs: StepLogs
    store: EpisodeStore
    offers: ToolOffers
    models: OrchestratorModels

    @activity.defn(name=ADMIT_CHILD)
    async def admit_child(self, call: ChildCall) -> EpisodeInput:
        """Stores the child; repeating it finds the one that is stored."""
        with activity_errors():
            async with heartbeats():
                parent = await self.episodes.get(call.parent_id)
                with acting_as(parent.identity), telemetry.episode_context(call.episode_id):
                    return await self._admit(parent, call)

    async def _admit(self, parent: RunningEpisode, call: ChildCall) -> EpisodeInput:
        log = await self.logs.open(parent.id)
        decided = log.model_calls[call.turn].response.action.tool_calls.calls
        asked = next(one for one in decided if one.index == call.call_index)
        tool = parent.tool(asked.tool_name)
        if tool is None:
            raise InvalidEpisode(f"episode {parent.id} has no tool {asked.tool_name}")
        spec = child_spec(parent, call, asked, tool.podium)
        toolset = await self.offers.of(spec)
        await self.models.find(spec.model or toolset.model)
        # No running limit: it counts, but a caller that waits must not be rejected its child.
        stored = await self.store.insert(admit(call.episode_id, spec, toolset, parent.identity))
        return episode_input(stored.new)


def child_spec(
    parent: RunningEpisode,
    call: ChildCall,
    asked: pb.ToolCall,
    podium: tool_pb2.PodiumConnection,
) -> episode_pb2.EpisodeSpec:
    """Describes the child: by its tool's settings, and by its parent's where the tool has none."""
    spec = parent.spec
    return episode_pb2.EpisodeSpec(
        task=task_of(asked),
        model=podium.model,
        policy=podium.policy or spec.policy,
        tool_names=podium.tool_names or spec.tool_names,
        time_limit=duration_to_proto(call.time_limit_s),
        prompt_mode=spec.prompt_mode,
        sampling=spec.sampling,
        labels=spec.labels,
        parallel_calls=spec.parallel_calls,
        parent=episode_pb2.ParentCall(
            episode_id=parent.id,
            turn=call.turn,
            call_index=call.call_index,
            depth=spec.parent.depth + 1,
            budget_id=shared_budget_id(parent.id, spec, parent.toolset),
        ),
    )
