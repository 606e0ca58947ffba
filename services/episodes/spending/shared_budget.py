"""The budget that an episode was started with, and the episodes that spend from it.

An episode that can call orchestrators shares its budget with the episodes they run: all of their
calls name it. Any other budget covers its own episode alone.
"""

from episodes.keys import budget_id
from episodes.models import NewEpisode
from podium.episodes.v1 import episode_pb2
from podium.ledger.v1 import budget_service_pb2 as budget_pb
from podium.registry.v1 import tool_pb2, toolset_pb2


def episode_budget(new: NewEpisode, spec: episode_pb2.EpisodeSpec) -> budget_pb.Budget:
    budget = budget_pb.Budget(
        id=budget_id(new.episode_id),
        window=budget_pb.BUDGET_WINDOW_TOTAL,
        hard_limit=spec.budget,
    )
    if calls_orchestrators(toolset_pb2.Toolset.FromString(new.toolset)):
        budget.scope = budget_pb.BUDGET_SCOPE_NAMED
    else:
        budget.scope, budget.scope_id = budget_pb.BUDGET_SCOPE_EPISODE, new.episode_id
    return budget


def shared_budget_id(
    episode_id: str, spec: episode_pb2.EpisodeSpec, toolset: toolset_pb2.Toolset
) -> str:
    if spec.HasField("budget") and calls_orchestrators(toolset):
        return budget_id(episode_id)
    return spec.parent.budget_id


def calls_orchestrators(toolset: toolset_pb2.Toolset) -> bool:
    return any(tool.kind == tool_pb2.TOOL_KIND_PODIUM for tool in toolset.tools)
