"""What the tenant's policy says about calls now: asked again when they are made.

An episode lists the tools its policy allowed when it began. A policy that changes while
the episode runs applies to its next call, at most half a second later.
"""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from cachetools import TTLCache

from episodes.charges.purchases import fallback_aliases, model_alias
from episodes.models import PlannedCall, PolicyDecision
from episodes.running_episode import RunningEpisode
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.registry.v1 import toolset_pb2
from podium_kit.rpc.identity import Identity

KEPT_S = 0.5
DECISIONS_KEPT = 50_000


class Policies(Protocol):
    """Where decisions come from: the registry, as the episode's subject."""

    async def check(self, policy: str, calls: Sequence[PlannedCall]) -> list[PolicyDecision]:
        """One per call, in order. Raises Unavailable and its like."""


class PolicyChecks:
    """Decisions, remembered for half a second: a caller's episodes make the same calls."""

    def __init__(self, policies: Policies, clock: Callable[[], float] = time.monotonic) -> None:
        self._policies = policies
        self._known: TTLCache[tuple[Identity, str, PlannedCall], PolicyDecision] = TTLCache(
            DECISIONS_KEPT, KEPT_S, clock
        )

    async def decide(
        self, episode: RunningEpisode, calls: Sequence[PlannedCall]
    ) -> list[PolicyDecision]:
        """One per call, in order, under the policy the episode asked for as it is now."""
        caller, policy = episode.identity, episode.spec.policy
        found: dict[PlannedCall, PolicyDecision | None] = {
            call: self._known.get((caller, policy, call)) for call in calls
        }
        missing = [call for call, decision in found.items() if decision is None]
        if missing:
            fresh = await self._policies.check(policy, missing)
            for call, fresh_one in zip(missing, fresh, strict=True):
                found[call] = self._known[caller, policy, call] = fresh_one
        return [decision for call in calls if (decision := found[call]) is not None]


def planned_call(call: pb.ToolCall, tool: toolset_pb2.ResolvedTool) -> PlannedCall:
    """A call as the policy decides on it."""
    return PlannedCall(tool.name, tool.version, model_alias(call, tool))


def planned_fallbacks(call: pb.ToolCall, tool: toolset_pb2.ResolvedTool) -> list[PlannedCall]:
    """The calls that may take its place, as the policy decides on them."""
    aliases = fallback_aliases(call, tool)
    return [PlannedCall(tool.name, tool.version, alias) for alias in aliases]
