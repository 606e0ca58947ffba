"""The groups of a run, or what is wrong with its options."""

from collections.abc import Sequence

from podium_kit.client.errors import UsageError
from podium_training.rollouts import Group, Offer, plan
from podium_training.tasks.task import Task


def planned(run_id: str, tasks: Sequence[Task], size: int, offer: Offer) -> list[Group]:
    """One group per task. Raises UsageError."""
    try:
        return plan(run_id, tasks, size, offer)
    except ValueError as error:
        raise UsageError(str(error), "see `podium tools list`, and --help") from error
