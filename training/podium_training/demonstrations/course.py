"""`python -m podium_training.demonstrations.course`: tasks for a bundled policy to learn.

One file per tool subset: tasks that share a subset share the beginning of their prompts.
Tasks that look like those of `podium demo` are left out: it is to measure, not to remind.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import yaml

from podium_kit.bundled_files import bundled_folder
from podium_training.tasks.library import products
from podium_training.tasks.task import Call, Split, Task
from podium_training.tasks.taskset import generate

SEEDS = (20, 21, 22, 23)
# Tasks by family, for every seed: most have two or three steps, whose results are copied on.
TOOL_SUBSETS = {
    "steps": {"composition": 56, "retrieval": 14},
    "sums": {"arithmetic": 22, "dates": 28, "units": 20},
    "facts": {"facts": 24, "sql": 22, "dictionary": 14},
    "all": {
        "composition": 14,
        "arithmetic": 6,
        "dates": 8,
        "units": 6,
        "sql": 6,
        "retrieval": 4,
        "facts": 6,
        "dictionary": 2,
    },
}
# So many are drawn for one that is kept.
DRAWN = 2


class Demo:
    """What `podium demo` asks."""

    def __init__(self, folder: Path) -> None:
        files = [yaml.safe_load(path.read_text()) for path in sorted(folder.glob("*.yaml"))]
        tasks: list[dict[str, Any]] = [task for file in files for task in file["tasks"]]
        self._calls = {_key(Call(**task["solution"][0])) for task in tasks}
        self._questions = " ".join(task["question"] for task in tasks)
        self._products = {each.name for each in products() if each.name in self._questions}

    def asks_like(self, task: Task) -> bool:
        """Whether it makes a call that one of the demo's begins with, or names its product."""
        return (
            task.question in self._questions
            or any(_key(call) in self._calls for call in task.solution)
            or any(name in task.question for name in self._products)
        )


def write(folder: Path) -> None:
    """`SUBSET-SEED.jsonl` for every tool subset and seed. Raises OSError."""
    demo = Demo(bundled_folder() / "tasks")
    folder.mkdir(parents=True, exist_ok=True)
    for seed in SEEDS:
        for number, (subset, counts) in enumerate(TOOL_SUBSETS.items()):
            tasks = list(_tasks(counts, seed * 10 + number, demo))
            Random(seed).shuffle(tasks)  # noqa: S311 chance, not a secret
            lines = "".join(f"{task.to_json()}\n" for task in tasks)
            (folder / f"{subset}-{seed}.jsonl").write_text(lines, encoding="utf-8")


def _tasks(counts: dict[str, int], seed: int, demo: Demo) -> Iterator[Task]:
    for family, count in counts.items():
        drawn = generate(DRAWN * count, Split.TRAIN, seed, [family])
        yield from [task for task in drawn if not demo.asks_like(task)][:count]


def _key(call: Call) -> tuple[str, ...]:
    """A call by its tool and what it is about; how many results it wants does not matter."""
    about = {name: value for name, value in call.arguments.items() if name != "top_k"}
    return call.tool, *sorted(map(str, about.values()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write tasks for a bundled policy to learn from.")
    parser.add_argument("folder", type=Path, help="for MENU-SEED.jsonl, one of each")
    write(parser.parse_args().folder)
