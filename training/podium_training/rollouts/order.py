import heapq
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from podium_training.tasks.task import Task

# A policy that learns makes its earlier results less telling.
FADING = 0.5


@dataclass
class TaskOrder:
    """Deals a run's tasks to its rounds: each comes once before any comes again.

    With a curriculum a task comes the oftener, the less certain it is that the policy solves it: a
    group whose episodes are all right or all wrong differs in cost and latency alone.
    """

    tasks: Sequence[Task]
    curriculum: bool = False
    results: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Faded sums of what tasks scored and missed, by task."""

    def deal(self, number: int, count: int) -> list[Task]:
        """Returns the tasks of round `number`, from 1; the same for the same results."""
        count = min(count, len(self.tasks))
        if self.curriculum:
            draw = random.Random(number)  # noqa: S311 chance, not a secret
            # Weighted sampling without replacement (Efraimidis and Spirakis, 2006).
            return heapq.nlargest(
                count, self.tasks, key=lambda task: draw.random() ** (1 / self._uncertainty(task))
            )
        epoch, place = divmod(number - 1, len(self.tasks) // count)
        shuffled = list(self.tasks)
        random.Random(epoch).shuffle(shuffled)  # noqa: S311 chance, not a secret
        return shuffled[place * count : (place + 1) * count]

    def note(self, scores: Iterable[tuple[str, float]]) -> None:
        """Counts the scores of a round's episodes, each with the id of its task."""
        summed: dict[str, tuple[float, float]] = {}
        for task, score in scores:
            right, wrong = summed.get(task, (0.0, 0.0))
            summed[task] = right + score, wrong + 1 - score
        for task, (right, wrong) in summed.items():
            earlier = self.results.get(task, (0.0, 0.0))
            self.results[task] = FADING * earlier[0] + right, FADING * earlier[1] + wrong

    def _uncertainty(self, task: Task) -> float:
        """Returns the expected variance of a task's score, under a uniform prior of its mean."""
        right, wrong = (1 + part for part in self.results.get(task.id, (0.0, 0.0)))
        return right * wrong / ((right + wrong) * (right + wrong + 1))
