"""`podium train tasks`: make tasks, or read those of others."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from podium_cli.command import Session, command
from podium_cli.commands.train.train import app
from podium_cli.formats import counted
from podium_cli.listing import listing
from podium_cli.training.choosing import (
    Count,
    Family,
    Seed,
    Source,
    SplitName,
    SplitOption,
    load_tasks,
)
from podium_cli.writing import writing


@command(app, "tasks")
async def tasks(
    session: Session,
    *,
    source: Annotated[Source, typer.Option("--from", help="Whose tasks.")] = Source.FAMILIES,
    count: Count = 70,
    split: SplitOption = SplitName.TRAIN,
    seed: Seed = 0,
    family: Family = None,
    file: Annotated[Path | None, typer.Option(help="JSON lines, for --from paper.")] = None,
    judge: Annotated[
        str, typer.Option(help="Tool of kind llm that compares answers, for --from paper.")
    ] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="JSONL file to write.")
    ] = None,
) -> None:
    """Make tasks whose answers can be checked; show them, or write them to a file.

    [bold]families[/] are Podium's own, from a seed. [bold]reasoning-gym[/] and [bold]bfcl[/]
    are packages to install first; bfcl is for evaluation only. [bold]paper[/] reads
    ToolOrchestra's data format.
    """
    made = load_tasks(source, count, split, seed, family, file=file, judge=judge)
    if output is not None:
        with writing(output):
            output.write_text("".join(f"{task.to_json()}\n" for task in made), encoding="utf-8")
        session.output.note(escape(f"{counted(len(made), 'task')} in {output}"))
        return
    rows = [(task.id, ", ".join(task.tools), task.question) for task in made]
    values = {"tasks": [{"id": task.id, "question": task.question} for task in made]}
    session.output.result(values, listing(("task", "tools", "question…"), rows))
