"""The questions of `podium demo`, which no policy learns from."""

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from podium_training.tasks.families.dates import ways
from podium_training.tasks.library import offices, products
from podium_training.tasks.task import Task

NUMBER = re.compile(r"(?<![\w.-])\d[\d,]*(?:\.\d+)?")
ISO_DAY = re.compile(r"\d{4}-\d\d-\d\d")
MONTH = re.compile(r"\b[A-Z][a-z]+ \d{4}\b")
QUOTED = re.compile(r"'(\w{3,})'")
# Arguments that are no names of things.
COMPOSED = {"expression", "query", "phase", "from_unit", "to_unit"}
# A year says little about a question.
YEARS = range(1900, 2101)


class Demo:
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
    """The things and days that calls are about, as people write them."""
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
