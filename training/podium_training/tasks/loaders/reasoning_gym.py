"""Tasks of the package `reasoning-gym`: puzzles made from a seed, each with its own scorer.

A plain number or word is judged here. Anything else is scored by the package itself, in
the sandbox, because some of its scorers run what the model wrote; the sandbox needs the
package, too, and without it the answer stays unjudged.
"""

import hashlib
import importlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from types import ModuleType
from typing import Any

from podium_training.tasks.loaders.errors import PackageMissing, UnknownFamily, UnreadableSource
from podium_training.tasks.splits import split_of
from podium_training.tasks.task import Split, Task

INSTALL = "uv pip install reasoning-gym"
# A data set is made anew wherever an entry is scored, so its size is part of what is agreed.
ENTRIES = 100_000
# No data set repeats itself for so long unless it holds nothing else.
REPEATS_MAX = 1000
NUMBER = re.compile(r"-?\d+(\.\d+)?")
WORDS = re.compile(r"[A-Za-z]+( [A-Za-z]+)*")
CHECK = """import hashlib
import importlib
import reasoning_gym

def check(answer):
    tasks = reasoning_gym.create_dataset({name!r}, seed={seed}, size={size})
    entry = tasks[{index}]
    if hashlib.sha256(entry["question"].encode()).hexdigest() != {digest!r}:
        raise ValueError("this version of reasoning-gym makes other tasks than the task's own")
    return tasks.score_answer(answer, entry)
"""


def load(count: int, split: Split, seed: int, families: Sequence[str]) -> list[Task]:
    package = _package()
    known = sorted(package.factory.DATASETS)
    if not families:
        raise UnreadableSource("reasoning-gym has many families", f"name some: {', '.join(known)}")
    if unknown := [name for name in families if name not in known]:
        raise UnknownFamily(unknown[0], known)
    streams = [_Family(package, name, split, seed).tasks() for name in families]
    shares = [len(range(place, count, len(streams))) for place in range(len(streams))]
    return [
        task
        for stream, share in zip(streams, shares, strict=True)
        for task in _share(stream, share)
    ]


def source_of(seed: int) -> int:
    """The package's seed: it draws entry i from seed + i, so near seeds would share tasks."""
    return int.from_bytes(hashlib.sha256(str(seed).encode()).digest()[:4]) >> 1


def _package() -> ModuleType:
    try:
        # Takes seconds, and is needed by those alone who ask for its tasks.
        return importlib.import_module("reasoning_gym")
    except ModuleNotFoundError as error:
        raise PackageMissing("reasoning-gym", INSTALL) from error


def _share(stream: Iterator[Task], share: int) -> list[Task]:
    found = list(islice(stream, share))
    if len(found) < share:
        raise UnreadableSource(f"there are {len(found)} of {share} tasks", "ask for fewer")
    return found


@dataclass(frozen=True)
class _Family:
    package: ModuleType
    name: str
    split: Split
    seed: int

    def tasks(self) -> Iterator[Task]:
        """Different tasks; ends where the data set has no others."""
        entries = self._entries()
        has_one_answer = _has_one_answer(entries)
        seen: set[str] = set()
        repeats = 0
        for index in range(ENTRIES):
            # Some entries take the package seconds to make, so each is made once.
            entry = entries[index]
            question = entry["question"]
            repeats = repeats + 1 if question in seen else 0
            if repeats > REPEATS_MAX:
                return
            if question not in seen and split_of(question) is self.split:
                yield self._task(index, entry, has_one_answer)
            seen.add(question)

    def _entries(self) -> Any:
        try:
            return self.package.create_dataset(self.name, seed=source_of(self.seed), size=ENTRIES)
        except (AssertionError, ValueError, OSError) as error:
            cause = f"reasoning-gym cannot make {self.name}: {error}"
            raise UnreadableSource(cause, "leave it out") from error

    def _task(self, index: int, entry: dict[str, Any], has_one_answer: bool) -> Task:
        simple = _simple_check(str(entry["answer"])) if has_one_answer else None
        verifier, parameters = simple or self._own_check(index, entry)
        return Task(
            id=f"reasoning-gym/{self.name}-{self.split}-{self.seed}-{index}",
            family=f"reasoning-gym/{self.name}",
            split=self.split,
            question=entry["question"],
            verifier=verifier,
            parameters=parameters,
        )

    def _own_check(self, index: int, entry: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        code = CHECK.format(
            name=self.name,
            seed=source_of(self.seed),
            size=ENTRIES,
            index=index,
            digest=hashlib.sha256(entry["question"].encode()).hexdigest(),
        )
        return "python", {"code": code}


def _simple_check(answer: str) -> tuple[str, dict[str, Any]] | None:
    """A check that needs no package; None for an answer that is not plain."""
    if NUMBER.fullmatch(answer):
        return "numeric", {"expected": answer}
    return ("exact", {"expected": answer}) if WORDS.fullmatch(answer) else None


def _has_one_answer(entries: Any) -> bool:
    """Returns whether the data set compares with its one answer, as the package does by default."""
    kind: Any = type(entries)
    base = next(each for each in kind.__mro__ if each.__name__ == "ProceduralDataset")
    return bool(kind.score_answer is base.score_answer)
