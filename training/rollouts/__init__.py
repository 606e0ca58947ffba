"""Groups of episodes of one task: what is run, with which ids and which tools."""

from rollouts.payloads import RolloutLimits
from rollouts.plan import Group, Offer, Rollout, plan

__all__ = ["Group", "Offer", "Rollout", "RolloutLimits", "plan"]
