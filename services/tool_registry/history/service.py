from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tool_registry.facts.measurements import Clock
from tool_registry.history.adherence import AdherenceReport, PolicyScores
from tool_registry.history.dry_run import DryRun, dry_run
from tool_registry.history.past_episodes import (
    EPISODES_DEFAULT,
    PastCall,
    PastEpisode,
    PastEpisodes,
    Selection,
)
from tool_registry.models import PolicySpec
from tool_registry.policies.presets import DEFAULT_POLICY
from tool_registry.toolsets.resolution import Resolution
from tool_registry.toolsets.resolver import PlannedCall

WINDOW = timedelta(days=7)


@dataclass(frozen=True)
class PolicyHistory:
    episodes: PastEpisodes
    resolution: Resolution
    clock: Clock

    def selection(self, since: datetime | None, limit: int, policy: str) -> Selection:
        policies = frozenset({policy} if policy else ())
        return Selection(since or self.clock() - WINDOW, limit or EPISODES_DEFAULT, policies)

    async def dry_run(self, policy: str, spec: PolicySpec | None, past: Selection) -> DryRun:
        episodes = await self.episodes.select(past)
        calls = sorted({_planned(call) for each in episodes for call in each.calls}, key=_place)
        _, decisions = await self.resolution.decide(policy, spec, calls)
        decided = dict(zip(calls, decisions, strict=True))
        return dry_run(episodes, lambda call: decided[_planned(call)])

    async def adherence(
        self, past: Selection, baseline: str, answered_is_solved: bool
    ) -> list[PolicyScores]:
        baseline = baseline or DEFAULT_POLICY
        policies = past.policies | {baseline} if past.policies else past.policies
        episodes = await self.episodes.select(replace(past, policies=policies))
        report = AdherenceReport(episodes, baseline, answered_is_solved)
        return report.policies(_of(past.policies, episodes))


def _of(policies: frozenset[str], episodes: Sequence[PastEpisode]) -> list[PastEpisode]:
    return [each for each in episodes if not policies or each.policy_name in policies]


def _planned(call: PastCall) -> PlannedCall:
    return PlannedCall(call.tool_name, call.tool_version, call.model_alias)


def _place(call: PlannedCall) -> tuple[str, int, str]:
    return call.tool_name, call.tool_version, call.model_alias
