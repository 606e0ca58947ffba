"""Advantage estimators: how much better an episode was than the others of its group.

Those of `GROUP_ESTIMATORS` take one group; `batch_std` and `gdpo` take all groups of a step, which
may be uneven. An advantage belongs
to the episode; all its trained tokens share it. Demonstrations are not compared: a solved one is
worth imitating, whatever the others of its group did.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum

import torch
from jaxtyping import Float
from torch import Tensor

PerMember = Float[Tensor, " members"]
# Of each member, or of each of its components.
Rewards = Float[Tensor, "members *components"]
# Of several groups, each of its own size.
OfGroup = Float[Tensor, "_"]
Components = Float[Tensor, "_ _"]
Weights = Float[Tensor, "_"]

STD_EPSILON = 1e-4
PAPER_STD_EPSILON = 1e-6
PAPER_CLIP = 3.0


class Advantage(StrEnum):
    """Name of an estimator."""

    GROUP_MEAN = "group_mean"
    GROUP_STD = "group_std"
    BATCH_STD = "batch_std"
    RLOO = "rloo"
    PAPER = "paper"
    GDPO = "gdpo"
    SOLVED = "solved"
    """1 for a solved episode, 0 for another: imitation."""


def group_mean(rewards: Rewards) -> Rewards:
    """A = R - mean of the group (Dr. GRPO, arXiv 2503.20783)."""
    return rewards - rewards.mean(dim=0)


def group_std(rewards: Rewards) -> Rewards:
    """A = (R - mean) / (std + 1e-4) of the group (GRPO, arXiv 2402.03300)."""
    return group_mean(rewards) / (rewards.std(dim=0) + STD_EPSILON)


def rloo(rewards: PerMember) -> PerMember:
    """A = R - mean of the others in the group (arXiv 2402.14740)."""
    members = len(rewards)
    return group_mean(rewards) * members / (members - 1)


def paper(rewards: PerMember) -> PerMember:
    """A = (R - mean) / std of the group, clipped to [-3, 3] as in its training."""
    scaled = group_mean(rewards) / (rewards.std(dim=0) + PAPER_STD_EPSILON)
    return scaled.clamp(-PAPER_CLIP, PAPER_CLIP)


def solved(rewards: PerMember) -> PerMember:
    """A = R: a demonstration's reward is 1 where it solved its task and 0 elsewhere."""
    return rewards


GROUP_ESTIMATORS: dict[Advantage, Callable[[PerMember], PerMember]] = {
    Advantage.GROUP_MEAN: group_mean,
    Advantage.GROUP_STD: group_std,
    Advantage.RLOO: rloo,
    Advantage.PAPER: paper,
    Advantage.SOLVED: solved,
}


def batch_std(groups: Sequence[OfGroup]) -> list[OfGroup]:
    """The group's mean, the whole batch's standard deviation (arXiv 2508.08221)."""
    spread = torch.cat(list(groups)).std() + STD_EPSILON
    return [group_mean(rewards) / spread for rewards in groups]


def gdpo(groups: Sequence[Components], weights: Sequence[Weights]) -> list[OfGroup]:
    """Each component normalised in its group, weighted, summed, normalised over the batch.

    Groups may have other tools, so other components. Keeps apart rewards that a sum would hide in
    each other (arXiv 2601.05242).
    """
    summed = [group_std(group) @ weight for group, weight in zip(groups, weights, strict=True)]
    whole = torch.cat(summed)
    return [(each - whole.mean()) / (whole.std() + STD_EPSILON) for each in summed]
