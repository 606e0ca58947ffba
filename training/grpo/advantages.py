"""Advantage estimators: how much better an episode was than the others of its group.

Every estimator takes rewards of shape (groups, members) and returns the same shape. An
advantage belongs to the episode; all its trained tokens share it. Demonstrations are not
compared: a solved one is worth imitating, whatever the others of its group did.
"""

from collections.abc import Callable
from enum import StrEnum

from torch import Tensor

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
    SOLVED = "solved"
    """1 for a solved episode, 0 for another: imitation."""


def group_mean(rewards: Tensor) -> Tensor:
    """A = R - mean of the group (Dr. GRPO, arXiv 2503.20783)."""
    return rewards - rewards.mean(dim=1, keepdim=True)


def group_std(rewards: Tensor) -> Tensor:
    """A = (R - mean) / (std + 1e-4) of the group (GRPO, arXiv 2402.03300)."""
    return group_mean(rewards) / (rewards.std(dim=1, keepdim=True) + STD_EPSILON)


def batch_std(rewards: Tensor) -> Tensor:
    """The group's mean, the whole batch's standard deviation (arXiv 2508.08221)."""
    return group_mean(rewards) / (rewards.std() + STD_EPSILON)


def rloo(rewards: Tensor) -> Tensor:
    """A = R - mean of the others in the group (arXiv 2402.14740)."""
    members = rewards.shape[1]
    return group_mean(rewards) * members / (members - 1)


def paper(rewards: Tensor) -> Tensor:
    """A = (R - mean) / std of the group, clipped to [-3, 3] as in its training."""
    scaled = group_mean(rewards) / (rewards.std(dim=1, keepdim=True) + PAPER_STD_EPSILON)
    return scaled.clamp(-PAPER_CLIP, PAPER_CLIP)


ESTIMATORS: dict[Advantage, Callable[[Tensor], Tensor]] = {
    Advantage.GROUP_MEAN: group_mean,
    Advantage.GROUP_STD: group_std,
    Advantage.BATCH_STD: batch_std,
    Advantage.RLOO: rloo,
    Advantage.PAPER: paper,
}


def gdpo(components: Tensor, weights: Tensor) -> Tensor:
    """Each component normalised in its group, weighted, summed, normalised over the batch.

    components: (groups, members, components); weights: (components,); answer: (groups, members).
    Keeps apart rewards that a sum would hide in each other (arXiv 2601.05242).
    """
    centred = components - components.mean(dim=1, keepdim=True)
    scaled = centred / (components.std(dim=1, keepdim=True) + STD_EPSILON)
    summed = (scaled * weights).sum(dim=-1)
    return (summed - summed.mean()) / (summed.std() + STD_EPSILON)
