from collections.abc import Sequence
from statistics import fmean, pstdev

from podium_training.grpo.data.groups import Group
from podium_training.grpo.objective.adherence import adherence_metrics


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
