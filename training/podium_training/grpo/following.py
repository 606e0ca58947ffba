"""What the processes of a group do alike: the first reads the stream, the others follow."""

from dataclasses import dataclass

from podium_training.grpo.data.groups import Group
from podium_training.grpo.learner import Learner
from podium_training.grpo.process_group import ProcessGroup


@dataclass(frozen=True)
class Plan:
    """The next step, the same for all processes."""

    groups: tuple[Group, ...]
    checkpoint: bool
    """Whether weights are gathered after it."""
    rate: float = 1.0
    """Share of the learning rate."""


@dataclass(frozen=True)
class Done:
    """There is no next step."""

    steps: int
    """Taken in all."""


def follow(learner: Learner, processes: ProcessGroup) -> int:
    """Takes the steps that the first process plans, until it is done; the steps in all."""
    while isinstance(plan := processes.broadcast(_nothing()), Plan):
        learner.step(plan.groups, plan.rate)
        if plan.checkpoint:
            learner.gathered()
    return plan.steps


def _nothing() -> Plan | Done:
    """What a follower has to share: the first process's word replaces it."""
    return Done(0)
