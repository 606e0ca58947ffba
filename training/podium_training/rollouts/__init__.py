from podium_training.rollouts.payloads import RolloutLimits
from podium_training.rollouts.plan import Group, Offer, Rollout, anew, plan

__all__ = ["Group", "Offer", "Rollout", "RolloutLimits", "anew", "plan"]
