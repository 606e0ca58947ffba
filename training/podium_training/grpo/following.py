"""Steps that all processes of a group take: the first reads the stream, the others follow."""

from dataclasses import dataclass

from podium_training.grpo.data.groups import Group
from podium_training.grpo.ending import Interrupted
from podium_training.grpo.learner import Learner
from podium_training.grpo.process_group import ProcessGroup


@dataclass(frozen=True)
class Plan:
    groups: tuple[Group, ...]
    checkpoint: bool
    """True where weights are gathered after it."""
    rate: float = 1.0
    """Share of the learning rate."""


@dataclass(frozen=True)
class Done:
    steps: int
    """Taken in all."""
    checkpoint: bool = False
    """True where weights are gathered: no checkpoint holds the last step."""
    stopped: bool = False
    """It ends before its last step: whoever runs it wants that, or the log cannot be read."""


@dataclass(frozen=True)
class Failed:
    """The first process cannot continue, so none can."""

    reason: str


class NotPublished(RuntimeError):
    """A version that was due could not be written; the checkpoint of its step was."""


def follow(learner: Learner, processes: ProcessGroup) -> int:
    """Takes the steps that the first process plans, until it is done; the steps in all.

    Raises NotPublished and Interrupted when the first process does.
    """
    while isinstance(word := processes.broadcast(_nothing()), Plan):
        learner.step(word.groups, word.rate)
        if word.checkpoint:
            learner.gathered()
    if isinstance(word, Failed):
        raise NotPublished(word.reason)
    if word.checkpoint:
        learner.gathered()
    if word.stopped:
        raise Interrupted(word.steps)
    return word.steps


def _nothing() -> Plan | Done | Failed:
    return Done(0)
