"""The results of the tasks, in figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from podium_cli.demo.tasks import Task
from podium_kit.money import Money


@dataclass(frozen=True)
class Outcome:
    """One task and the episode that tried it."""

    task: Task
    episode_id: str
    model: str
    answer: str
    right: bool
    stop_reason: str
    tools_called: tuple[str, ...]
    failed_calls: int
    turns: int
    cost: Money | None
    model_s: float
    tools_s: float
    start: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        return (self.end - self.start).total_seconds()


@dataclass(frozen=True)
class Accuracy:
    """How many tasks of a kind were answered rightly."""

    kind: str
    right: int
    total: int

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.right / self.total


def accuracy_by_kind(outcomes: Sequence[Outcome]) -> list[Accuracy]:
    """One per kind, in the order they were met."""
    kinds = dict.fromkeys(outcome.task.kind for outcome in outcomes)
    return [
        accuracy(kind, [outcome for outcome in outcomes if outcome.task.kind == kind])
        for kind in kinds
    ]


def accuracy(name: str, outcomes: Sequence[Outcome]) -> Accuracy:
    return Accuracy(name, sum(outcome.right for outcome in outcomes), len(outcomes))
