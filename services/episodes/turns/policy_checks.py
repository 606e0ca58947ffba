"""What the tenant's policy says about calls now: asked again when they are made.

An episode is shown the tools its policy allowed when it began. A policy that changes while
the episode runs is heeded by its next call, at most half a second later.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from cachetools import TTLCache

from episodes.turns.running_episode import RunningEpisode

KEPT_S = 0.5
DECISIONS_KEPT = 50_000


@dataclass(frozen=True)
class PlannedCall:
    """A call of one version of a tool; the alias is empty for tools without a choice."""

    tool_name: str
    tool_version: int
    model_alias: str


@dataclass(frozen=True)
class PolicyDecision:
    """Whether a call may be made, why, and whether a person must approve it first."""

    allowed: bool
    reason: str
    needs_approval: bool


class Policies(Protocol):
    """Where decisions come from: the registry, as the episode's subject."""

    async def check(self, policy: str, calls: Sequence[PlannedCall]) -> list[PolicyDecision]:
        """One per call, in order. Raises Unavailable and its like."""


class PolicyChecks:
    """Decisions, remembered for half a second: many episodes make the same calls."""

    def __init__(self, policies: Policies, clock: Callable[[], float] = time.monotonic) -> None:
        self._policies = policies
        self._known: TTLCache[tuple[str, str, PlannedCall], PolicyDecision] = TTLCache(
            DECISIONS_KEPT, KEPT_S, clock
        )

    async def decide(
        self, episode: RunningEpisode, calls: Sequence[PlannedCall]
    ) -> list[PolicyDecision]:
        """One per call, in order, under the policy the episode asked for as it is now."""
        tenant, policy = episode.stored.new.tenant, episode.spec.policy
        found: dict[PlannedCall, PolicyDecision | None] = {
            call: self._known.get((tenant, policy, call)) for call in calls
        }
        missing = [call for call, decision in found.items() if decision is None]
        if missing:
            fresh = await self._policies.check(policy, missing)
            for call, fresh_one in zip(missing, fresh, strict=True):
                found[call] = self._known[tenant, policy, call] = fresh_one
        return [decision for call in calls if (decision := found[call]) is not None]
