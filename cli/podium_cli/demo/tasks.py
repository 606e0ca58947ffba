"""The bundled tasks: questions whose answers can be checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import yaml

from podium_cli.documents.documents import InvalidDocument
from podium_kit.verifiers import InvalidVerifier, Verifier, load_verifier


@dataclass(frozen=True)
class Task:
    """A question and the verifier of its answer."""

    id: str
    kind: str
    question: str
    verifier: Verifier
    # Tools that are known to lead to the answer.
    tools: tuple[str, ...]


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


def tools_by_kind(
    tasks: Sequence[Task], known: Sequence[str], count: int
) -> dict[str, tuple[str, ...]]:
    """What tasks of a kind may use: the tools that solve them and others, `count` together.

    All tasks of a kind share the choice, so that their prompts share the engine's cache.
    """
    chosen = {}
    for number, kind in enumerate(dict.fromkeys(task.kind for task in tasks)):
        needed = {tool for task in tasks if task.kind == kind for tool in task.tools}
        # Every kind meets other distractors.
        turned = [*known[number:], *known[:number]]
        others = [tool for tool in turned if tool not in needed]
        chosen[kind] = (*sorted(needed), *others[: max(count - len(needed), 0)])
    return chosen


def tasks_of(document: Mapping[str, Any]) -> list[Task]:
    """The tasks of one kind. Raises KeyError, TypeError, InvalidVerifier."""
    return [_task(document["kind"], fields) for fields in document["tasks"]]


def _read(path: Path) -> list[Task]:
    try:
        return tasks_of(yaml.safe_load(path.read_text()))
    except (KeyError, TypeError, InvalidVerifier) as error:
        raise InvalidDocument(path, f"is no list of tasks: {error}") from error


def _task(kind: str, fields: Mapping[str, Any]) -> Task:
    parameters = dict(fields["verifier"])
    verifier = load_verifier(parameters.pop("kind"), {"expected": fields["answer"], **parameters})
    tools = tuple(dict.fromkeys(step["tool"] for step in fields["solution"]))
    return Task(fields["id"], kind, fields["question"], verifier, tools)
