"""Adherence of a batch's episodes to their preferences, as metrics of the run.

A policy that follows preferences is cheaper where cost weighs more than latency, faster where
latency does, and calls the tools that are preferred. Outcome weighs most everywhere.
"""

from collections.abc import Sequence
from statistics import fmean, pstdev

from podium_training.grpo.data.episodes import Episode
from podium_training.grpo.data.groups import Group
from podium_training.grpo.objective.rewards import Preferences


def batch_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Reward, its components and the tools chosen; costs in the groups' one currency."""
    members = [member for group in groups for member in group.members]
    rewards = [reward for group in groups for reward in group.rewards]
    features = [member.features for member in members]
    return {
        "reward_mean": fmean(rewards),
        "reward_std": pstdev(rewards),
        "reward_solved": fmean(each.solved for each in features),
        "cost_mean": fmean(each.cost for each in features),
        "latency_mean_s": fmean(each.latency_s for each in features),
        **adherence_metrics(members),
        **_tool_calls(groups),
    }


def _tool_calls(groups: Sequence[Group]) -> dict[str, float]:
    counts: dict[str, int] = {}
    members = [member for group in groups for member in group.members]
    for member in members:
        for tool, calls in zip(member.tools, member.features.tool_calls, strict=True):
            counts[tool] = counts.get(tool, 0) + calls
    return {f"calls {tool}": count / len(members) for tool, count in sorted(counts.items())}


def adherence_metrics(members: Sequence[Episode]) -> dict[str, float]:
    """Mean cost and latency by what is weighed more; the share of calls to preferred tools.

    A policy that follows preferences is cheaper where cost weighs more than latency, faster where
    latency does, and calls the tools that are preferred. Outcome weighs most everywhere.
    """
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
