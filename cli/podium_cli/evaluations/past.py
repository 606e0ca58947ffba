"""The commands that evaluate on what users asked before."""

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from podium_cli.command import Session, command
from podium_cli.evaluations.running import AtOnce, Report, run_checked
from podium_cli.evaluations.runs import app
from podium_cli.formats import counted
from podium_cli.inputs import (
    Judges,
    OwnFamily,
    Since,
    parse_end,
    parse_labels,
    parse_money,
    parse_start,
)
from podium_cli.output import require_place, writing
from podium_evaluation.suites.past_episodes import EpisodeFilter, past_tasks
from podium_evaluation.suites.run_file import Arm, RunFile, Source, SuiteOptions
from podium_kit.client.errors import UsageError
from podium_training.tasks.files import read_tasks

TASKS_MAX = 5000


@command(app, "suite-from-episodes")
async def suite_from_episodes(
    session: Session,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="JSONL file of tasks to write.")],
    policy: Annotated[str, typer.Option(help="Episodes under this policy alone.")] = "",
    since: Since = "",
    until: Annotated[str, typer.Option(help="Started before this time.")] = "",
    label: Annotated[list[str] | None, typer.Option(help="name=value; repeatable.")] = None,
    solved: Annotated[
        bool, typer.Option("--solved", help="Those alone that a check or feedback calls solved.")
    ] = False,
    count: Annotated[int, typer.Option(min=1, max=TASKS_MAX, help="Most tasks.")] = 500,
    judge: Judges = None,
) -> None:
    """Write a suite of what users asked, each question once, with its check or its liked answer.

    Episodes that you may not read, and those without training consent, are left out. Played, the
    items are replays: calls with effects are answered from the episode's record.
    """
    wanted = EpisodeFilter(
        policy,
        _moment(parse_start(since)),
        _moment(parse_end(until)),
        parse_labels(label or []),
        solved=solved,
        count=count,
        judges=judge or (),
    )
    require_place(output)
    async with session.gateway() as gateway:
        found = await past_tasks(gateway, wanted)
    for reason, left_out in found.left_out.most_common():
        session.output.note(f"{counted(left_out, 'episode')} left out: {reason}")
    if not found.tasks:
        raise UsageError("no episode became a task", "see the reasons above")
    with writing(output):
        lines = [f"{task.to_json()}\n" for task in found.tasks.values()]
        output.write_text("".join(lines), encoding="utf-8")
    values = {
        "file": str(output),
        "tasks": len(found.tasks),
        "left_out": dict(found.left_out.most_common()),
    }
    session.output.result(values, f"{output}: {counted(len(found.tasks), 'task')}")


@command(app, "replay")
async def replay(
    session: Session,
    file: Annotated[Path, typer.Argument(help="JSONL of `podium eval suite-from-episodes`.")],
    *,
    budget: Annotated[str, typer.Option(help="Most that all of it may cost, like 2.50.")],
    policy: Annotated[list[str] | None, typer.Option(help="An arm; repeatable.")] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="Orchestrators, each with every policy; repeatable.")
    ] = None,
    trial_budget: Annotated[str, typer.Option(help="A trial that would cost more is wrong.")] = "",
    repeats: Annotated[int, typer.Option(min=1, max=64, help="Trials of each task and arm.")] = 1,
    at_once: AtOnce = 4,
    own_family: OwnFamily = False,
    report: Report = None,
) -> None:
    """Play past tasks again under other policies or models, without effects.

    A call of a tool with effects is answered by what the episode recorded for the same tool and
    arguments. One that it did not make ends the trial as diverged: neither right nor wrong.
    """
    if not all(task.replay_of for task in read_tasks(file)):
        raise UsageError(
            f"{file} has tasks that are no past episode's, whose effects would be real",
            "make it with `podium eval suite-from-episodes`, or play it with `podium eval run`",
        )
    arms = [
        Arm(name="/".join(filter(None, (under, by))) or "active", policy=under, model=by)
        for under in policy or [""]
        for by in model or [""]
    ]
    name = f"replay/{file.stem}"[:128]
    suite = {"from": Source.TASKS, "file": file, "name": name, "count": TASKS_MAX}
    wanted = RunFile(
        suite=SuiteOptions.model_validate(suite),
        arms=tuple(arms),
        repeats=repeats,
        budget_usd=parse_money(budget).amount,
        trial_usd=parse_money(trial_budget).amount if trial_budget else None,
        at_once=at_once,
        allow_own_family=own_family,
    )
    await run_checked(session, wanted, report, detach=False)


def _moment(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
