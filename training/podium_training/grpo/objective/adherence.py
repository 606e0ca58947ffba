"""Adherence of a batch's episodes to their preferences, as metrics of the run.

A policy that follows preferences is cheaper where cost weighs more than latency, faster where
latency does, and calls the tools that are preferred. Outcome weighs most everywhere.
"""

from collections.abc import Sequence
from statistics import fmean

from podium_training.grpo.data.episodes import Episode
from podium_training.grpo.objective.rewards import Preferences


def adherence_metrics(members: Sequence[Episode]) -> dict[str, float]:
    """Mean cost and latency by what is weighed more; the share of calls to preferred tools."""
    found: dict[str, float] = {}
    for leaning in sorted({_leaning(member.preferences) for member in members}):
        features = [each.features for each in members if _leaning(each.preferences) == leaning]
        found[f"adherence cost {leaning}"] = fmean(each.cost for each in features)
        found[f"adherence latency {leaning}"] = fmean(each.latency_s for each in features)
    choosing = [member for member in members if any(member.preferences.tools)]
    if calls := sum(sum(member.features.tool_calls) for member in choosing):
        found["adherence preferred"] = sum(map(_preferred_calls, choosing)) / calls
    return found


def _leaning(preferences: Preferences) -> str:
    if preferences.compute == preferences.latency:
        return "even"
    return "cost first" if preferences.compute > preferences.latency else "speed first"


def _preferred_calls(member: Episode) -> int:
    pairs = zip(member.features.tool_calls, member.preferences.tools, strict=True)
    return sum(calls for calls, weight in pairs if weight > 0)
