"""`podium train`: tasks to learn from."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from podium_cli.command import Session, command
from podium_cli.errors import UsageError
from podium_cli.listing import listing
from tasksets.task import Split, Task

app = typer.Typer(name="train", help="Make tasks to learn from.", no_args_is_help=True)


class SplitName(StrEnum):
    """Which tasks; the other split shares no wording, word, place or number with them."""

    TRAIN = "train"
    HELD_OUT = "held-out"


Count = Annotated[int, typer.Option(min=1, help="How many tasks.")]
SplitOption = Annotated[SplitName, typer.Option(help="Tasks to learn from, or to measure on.")]
Seed = Annotated[int, typer.Option(help="The same seed makes the same tasks.")]
Family = Annotated[
    list[str] | None, typer.Option(help="Like arithmetic or sql; repeatable; all by default.")
]


@command(app, "tasks")
async def tasks(
    session: Session,
    *,
    count: Count = 70,
    split: SplitOption = SplitName.TRAIN,
    seed: Seed = 0,
    family: Family = None,
    out: Annotated[Path | None, typer.Option(help="JSONL file to write.")] = None,
) -> None:
    """Make tasks whose answers can be computed; show them, or write them to a file."""
    made = make_tasks(count, split, seed, family)
    if out is not None:
        out.write_text("".join(f"{task.to_json()}\n" for task in made), encoding="utf-8")
        session.output.note(f"{len(made)} tasks in {out}")
        return
    rows = [(task.id, ", ".join(task.tools), task.question) for task in made]
    values = {"tasks": [{"id": task.id, "question": task.question} for task in made]}
    session.output.result(values, listing(("task", "tools", "question…"), rows))


def make_tasks(count: int, split: SplitName, seed: int, family: list[str] | None) -> list[Task]:
    """The tasks the options ask for. Raises UsageError."""
    # The families stand on the bundled tools, which are slow to import and needed here alone.
    from tasksets.taskset import FAMILIES, TooFewTasks, generate  # noqa: PLC0415

    names = family or list(FAMILIES)
    if unknown := [name for name in names if name not in FAMILIES]:
        raise UsageError(f"there is no family {unknown[0]!r}", f"use {', '.join(FAMILIES)}")
    try:
        return generate(count, Split(split), seed, names)
    except TooFewTasks as error:
        raise UsageError(str(error), "ask for fewer, or for more families") from error
