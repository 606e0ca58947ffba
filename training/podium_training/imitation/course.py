"""`python -m podium_training.imitation.course FILE`: tasks for a bundled policy to learn.

Each kind of question comes up as often as the others. Tasks that look like those of `podium demo`
are left out: it is to measure, not to remind.
"""

import argparse
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import yaml

from podium_kit.bundled_files import bundled_folder
from podium_training.tasks.families.dates import ways
from podium_training.tasks.kinds import kinds
from podium_training.tasks.library import offices, products
from podium_training.tasks.task import Split, Task
from podium_training.tasks.taskset import FAMILIES, stream

NUMBER = re.compile(r"(?<![\w.-])\d[\d,]*(?:\.\d+)?")
ISO_DAY = re.compile(r"\d{4}-\d\d-\d\d")
MONTH = re.compile(r"\b[A-Z][a-z]+ \d{4}\b")
QUOTED = re.compile(r"'(\w{3,})'")
# Arguments that are no names of things.
COMPOSED = {"expression", "query", "phase", "from_unit", "to_unit"}
# A year says little about a question.
YEARS = range(1900, 2101)


class Demo:
    """The questions of `podium demo`, which no policy learns from."""

    def __init__(self, folder: Path) -> None:
        files = [yaml.safe_load(path.read_text()) for path in sorted(folder.glob("*.yaml"))]
        tasks: list[dict[str, Any]] = [task for file in files for task in file["tasks"]]
        text = " ".join(task["question"] for task in tasks)
        known = [each.name for each in products()] + [each.name for each in offices()]
        named = {name for name in known if name in text}
        named |= {name for task in tasks for name in _named(task["solution"])}
        named |= set(MONTH.findall(text))
        self._named = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(named)))})(?!\w)")
        self._questions = {task["question"] for task in tasks}
        self._numbers = [_numbers(task["question"]) for task in tasks]

    def asks_like(self, task: Task) -> bool:
        """Returns whether it names a thing or a day of the demo's, or has all numbers of one
        question.
        """
        if task.question in self._questions or self._named.search(task.question):
            return True
        numbers = _numbers(task.question)
        return any(asked and asked <= numbers for asked in self._numbers)


def _named(solution: list[dict[str, Any]]) -> Iterator[str]:
    for call in solution:
        for name, value in call["arguments"].items():
            text = str(value)
            if call["tool"] in ("query_database", "code_interpreter"):
                yield from QUOTED.findall(text)
            elif ISO_DAY.fullmatch(text):
                yield from ways(date.fromisoformat(text))
            elif isinstance(value, str) and name not in COMPOSED:
                yield text


def _numbers(question: str) -> frozenset[float]:
    """All but years; nothing when there are only years."""
    found = {float(each.replace(",", "")) for each in NUMBER.findall(question)}
    return frozenset() if found <= set(YEARS) else frozenset(found)


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
