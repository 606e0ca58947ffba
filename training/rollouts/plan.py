"""What a rollout run does, all of it decided before the first episode starts.

Ids follow from the run's id, the task and the place in the group, so a run that is
resumed asks for the episodes it asked for before, and the platform starts none twice.
Every group sees its own choice of tools (in the paper tools differ by example, too;
its generator was never released): those of the solution, and distractors by chance.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from rollouts.ids import derived_id
from tasksets.task import Task


class InvalidRun(ValueError):
    """A run cannot be planned; the message says why."""


@dataclass(frozen=True)
class Rollout:
    """One episode of a group."""

    episode_id: str
    sample_index: int


@dataclass(frozen=True)
class Group:
    """Episodes of one task, compared with each other: the same tools, the same policy."""

    id: str
    task: Task
    tool_names: tuple[str, ...]
    rollouts: tuple[Rollout, ...]


def plan(
    run_id: str, tasks: Sequence[Task], size: int, known: Sequence[str], tools_max: int
) -> list[Group]:
    """One group of `size` per task, offered at most `tools_max` of the known tools.

    The run's id, a UUIDv7, is the seed of every choice. Raises InvalidRun.
    """
    if uuid.UUID(run_id).version != 7:
        raise InvalidRun(f"run {run_id!r} is not a UUIDv7; start one without naming it")
    return [_group(run_id, task, size, known, tools_max) for task in tasks]


def _group(run_id: str, task: Task, size: int, known: Sequence[str], tools_max: int) -> Group:
    rollouts = tuple(
        Rollout(derived_id(run_id, task.id, str(index)), index) for index in range(size)
    )
    tools = _tools(run_id, task, known, tools_max)
    return Group(derived_id(run_id, task.id, "group"), task, tools, rollouts)


def _tools(run_id: str, task: Task, known: Sequence[str], tools_max: int) -> tuple[str, ...]:
    """The solution's tools and some others, in an order that gives nothing away."""
    if missing := sorted(set(task.tools) - set(known)):
        raise InvalidRun(f"task {task.id} needs {missing[0]}, which the platform does not have")
    random = Random(f"{run_id}/{task.id}/tools")  # noqa: S311 chance, not a secret
    others = sorted(set(known) - set(task.tools))
    room = min(max(tools_max - len(task.tools), 0), len(others))
    # A task without a solution may need any tool, so it is offered as many as fit.
    extra = room if not task.tools else random.randint(min(1, room), room)
    chosen = [*task.tools, *random.sample(others, extra)]
    random.shuffle(chosen)
    return tuple(chosen)
