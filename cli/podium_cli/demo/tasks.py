"""The bundled tasks: questions whose answers can be checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import yaml

from podium_cli.documents import InvalidDocument
from verifiers import InvalidVerifier, Verifier


@dataclass(frozen=True)
class Task:
    """A question, its answer, and how answers are compared."""

    id: str
    kind: str
    question: str
    answer: tuple[str, ...]
    verifier: Verifier


def load_tasks(folder: Path) -> list[Task]:
    """All tasks, file by file. Raises InvalidDocument."""
    return [task for path in sorted(folder.glob("*.yaml")) for task in _read(path)]


def choose(tasks: list[Task], count: int) -> list[Task]:
    """The first task of every kind, then the second of every kind, and so on."""
    kinds: dict[str, list[Task]] = {}
    for task in tasks:
        kinds.setdefault(task.kind, []).append(task)
    rounds = chain.from_iterable(zip_longest(*kinds.values()))
    return [task for task in rounds if task is not None][:count]


def _read(path: Path) -> list[Task]:
    document = yaml.safe_load(path.read_text())
    try:
        return [_task(document["kind"], fields) for fields in document["tasks"]]
    except (KeyError, TypeError, InvalidVerifier) as error:
        raise InvalidDocument(path, f"is no list of tasks: {error}") from error


def _task(kind: str, fields: Mapping[str, Any]) -> Task:
    answer = tuple(str(each) for each in fields["answer"])
    verifier = Verifier.parse(fields["verifier"])
    return Task(fields["id"], kind, fields["question"], answer, verifier)
