import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.text import Text

from podium_cli.command import Session, command, stopping_on_sigterm
from podium_cli.demo.accounts import Accounts, accounts
from podium_cli.demo.progress import SolvingProgress
from podium_cli.demo.report import report_of
from podium_cli.demo.solving import Effort, Outcome, accuracy, choose, load_tasks, solve
from podium_cli.demo.tables import accuracy_table, outcome_table, spend_table
from podium_cli.formats import format_money, format_seconds
from podium_cli.inputs import parse_seconds
from podium_cli.output import require_place, writing
from podium_cli.report_pages import write_report_page
from podium_cli.up.up import (
    AssumeYes,
    BaseUrl,
    EngineKey,
    EngineModel,
    ModelFolder,
    Untrained,
)
from podium_kit.bundled_files import bundled_folder
from podium_kit.client.errors import UsageError, UserError

REPORT = Path("build") / "demo" / "report.html"


app = typer.Typer(add_completion=False)


@command(app, "demo")
async def demo(
    session: Session,
    *,
    tasks: Annotated[int, typer.Option(min=1, help="How many tasks.")] = 26,
    turn_limit: Annotated[
        int, typer.Option(min=1, help="Most turns per task.")
    ] = Effort.turn_limit,
    time_limit: Annotated[
        str, typer.Option(help="Longest task, like 90s.")
    ] = f"{Effort.time_limit_s}s",
    tools: Annotated[int, typer.Option(min=1, help="Tools offered per task.")] = Effort.tools,
    at_once: Annotated[int, typer.Option(min=1, help="Tasks in flight.")] = Effort.at_once,
    report: Annotated[Path, typer.Option(help="HTML report to write.")] = REPORT,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the platform running.")] = False,
    model: ModelFolder = None,
    untrained: Untrained = False,
    openai_base_url: BaseUrl = "",
    openai_api_key: EngineKey = "",
    openai_model: EngineModel = "",
    yes: AssumeYes = False,
) -> None:
    """Solve real tasks with checkable answers and show the results.

    Uses the platform that is up, or starts one and stops it at the end.
    """
    # What a platform is made of is slow to import, and needed here alone.
    from podium_cli.demo.platform import demo_platform  # noqa: PLC0415
    from podium_cli.up.starting import engine_choice  # noqa: PLC0415

    started = time.monotonic()
    _prepare(report)
    chosen = choose(load_tasks(bundled_folder() / "tasks"), tasks)
    choice = engine_choice(model, untrained, openai_base_url, openai_api_key, openai_model)
    with stopping_on_sigterm():
        async with demo_platform(session, choice, yes, keep) as gateway:
            with SolvingProgress(session.output.progress, len(chosen)) as progress:
                effort = Effort(turn_limit, parse_seconds(time_limit), tools, at_once)
                outcomes = await solve(gateway, session.output, chosen, effort, progress)
            found = await accounts(gateway, outcomes)
            with writing(report):
                write_report_page(report, report_of(outcomes, found, tools, gateway.url))
    # A platform that the demo started is stopped by now, and its console with it.
    is_up = session.target.url is not None or session.target.state.holder() is not None
    _show(session, outcomes, found, report, f"{gateway.url}/console" if is_up else "")
    session.output.note(f"[dim]all of it took {format_seconds(time.monotonic() - started)}[/]")
    if not found.agree:
        raise UserError("ledger and trajectories differ", "this is a fault: keep the state folder")


def _prepare(report: Path) -> None:
    """Before tasks are paid for that no report could be about. Raises UsageError."""
    try:
        report.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        cause = f"{report.parent} cannot be made: {error.strerror}"
        raise UsageError(cause, "name another place with --report") from error
    require_place(report)


def _show(
    session: Session, outcomes: list[Outcome], found: Accounts, report: Path, console: str
) -> None:
    total = accuracy("all", outcomes)
    verdict = Text(f"trajectories {format_money(found.trajectories)} = ", "bold green")
    verdict.append(f"ledger {format_money(found.ledger)}")
    if not found.agree:
        verdict = Text(
            f"trajectories {found.trajectories} differ from ledger {found.ledger}", "red"
        )
    values = {
        "right": total.right,
        "total": total.total,
        "cost": str(found.ledger.amount),
        "report": str(report),
        "tasks": [_values(outcome) for outcome in outcomes],
    }
    view = Group(
        outcome_table(outcomes),
        "",
        accuracy_table(outcomes),
        "",
        spend_table(found),
        "",
        verdict,
        f"report  {report}",
        f"console {console}" if console else "`podium up` keeps a platform and its console running",
    )
    session.output.result(values, view)


def _values(outcome: Outcome) -> dict[str, Any]:
    return {
        "task": outcome.task.id,
        "kind": outcome.task.kind,
        "episode": outcome.episode_id,
        "tools_called": outcome.tools_called,
        "answer": outcome.answer,
        "right": outcome.right,
        "turns": outcome.turns,
        "cost": str(outcome.cost.amount) if outcome.cost else None,
        "seconds": outcome.seconds,
    }
