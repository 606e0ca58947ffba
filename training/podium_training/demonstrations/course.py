"""`python -m podium_training.demonstrations.course FILE`: tasks for a bundled policy to learn.

Each kind of question comes up as often as the others. Tasks that look like those of `podium demo`
are left out: it is to measure, not to remind.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from random import Random

from podium_kit.bundled_files import bundled_folder
from podium_training.demonstrations.demo import Demo
from podium_training.tasks.kinds import kinds
from podium_training.tasks.task import Split, Task
from podium_training.tasks.taskset import FAMILIES, stream


def write(path: Path, count: int, seed: int) -> None:
    with path.open("w", encoding="utf-8") as tasks:
        for task in draw_tasks(count, seed):
            tasks.write(f"{task.to_json()}\n")


def draw_tasks(count: int, seed: int) -> Iterator[Task]:
    """Different training tasks; a family comes up as often as it has kinds."""
    demo = Demo(bundled_folder() / "tasks")
    random = Random(f"course/{seed}")  # noqa: S311 chance, not a secret
    streams = {family: stream(family, Split.TRAIN, seed) for family in FAMILIES}
    weights = [len(kinds(family)) for family in FAMILIES]
    asked: set[str] = set()
    while len(asked) < count:
        [family] = random.choices(list(FAMILIES), weights)
        task = next(streams[family])
        if task.question not in asked and not demo.asks_like(task):
            asked.add(task.question)
            yield task


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write tasks for a bundled policy to learn from.")
    parser.add_argument("file", type=Path, help="JSONL to write")
    parser.add_argument("--tasks", type=int, default=10_000, help="how many")
    parser.add_argument("--seed", type=int, default=20, help="the same one makes the same tasks")
    arguments = parser.parse_args()
    write(arguments.file, arguments.tasks, arguments.seed)
