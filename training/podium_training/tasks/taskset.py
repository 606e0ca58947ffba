"""A seed, a split and a number make a set of tasks, always the same ones."""

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from random import Random

from podium_training.tasks.draft import Draft
from podium_training.tasks.families import (
    arithmetic,
    code,
    composition,
    dates,
    dictionary,
    direct,
    facts,
    holidays,
    retrieval,
    sky,
    sql,
    units,
)
from podium_training.tasks.kinds import kinds
from podium_training.tasks.task import Split, Task

Family = Callable[[Random, Split], Draft]
FAMILIES: dict[str, Family] = {
    "arithmetic": arithmetic.draw,
    "units": units.draw,
    "dates": dates.draw,
    "dictionary": dictionary.draw,
    "sql": sql.draw,
    "retrieval": retrieval.draw,
    "composition": composition.draw,
    "facts": facts.draw,
    "code": code.draw,
    "holidays": holidays.draw,
    "sky": sky.draw,
    "direct": direct.draw,
}
# A small family runs out of questions: after so many repeated ones in a row there are no more.
REPEATS_MAX = 1000


class TooFewTasks(ValueError):
    """The families hold fewer different questions than were asked for."""


def generate(
    count: int, split: Split, seed: int = 0, families: Sequence[str] = tuple(FAMILIES)
) -> list[Task]:
    """`count` different tasks, the families in turn. Raises TooFewTasks, KeyError."""
    tasks: dict[str, Task] = {}
    repeats = 0
    streams = cycle([stream(name, split, seed) for name in families])
    while len(tasks) < count:
        task = next(next(streams))
        repeats = repeats + 1 if task.question in tasks else 0
        tasks.setdefault(task.question, task)
        if repeats > REPEATS_MAX:
            raise TooFewTasks(f"{', '.join(families)} hold {len(tasks)} different tasks")
    return list(tasks.values())


def stream(family: str, split: Split, seed: int) -> Iterator[Task]:
    """Endless: every family has a source of chance of its own, whatever else is asked for."""
    random = Random(f"{family}/{split}/{seed}")  # noqa: S311 chance, not a secret
    number = 0
    while True:
        draft = FAMILIES[family](random, split)
        kind = kinds(family)[draft.kind]
        yield Task(
            id=f"{family}-{draft.kind}-{split}-{seed}-{number}",
            family=family,
            split=split,
            question=random.choice(kind.phrasings(split)).format(**draft.entities),
            verifier=draft.verifier,
            parameters=draft.parameters,
            solution=draft.solution,
        )
        number += 1
