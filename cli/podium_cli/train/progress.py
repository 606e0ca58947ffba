import asyncio
import math
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from podium_cli.command import Session, command
from podium_cli.output import writing
from podium_cli.report_pages import write_report_page
from podium_cli.train.train import app
from podium_kit.client.errors import UsageError
from podium_kit.policy_versions.metrics import METRICS, InvalidMetrics, Metrics, read_metrics

EVERY_S = 1.0
# A trainer imports torch before it makes its folder.
BEGIN_S = 60.0
REJECTED = "rejected "
Run = Annotated[Path, typer.Argument(help="Output folder of the run, or its metrics.jsonl.")]


@command(app, "watch")
async def watch(
    session: Session,
    run: Run,
    *,
    follow: Annotated[bool, typer.Option(help="Follow until Ctrl-C.")] = True,
) -> None:
    """Show each step as it ends: reward, solved, cost, drift, lag, and records rejected so far.

    Which and why is in rejected.jsonl beside the metrics.
    """
    shown = 0
    if follow and not _read(run, missing_is_empty=True):
        session.output.note(escape(f"{run} has no step yet; waiting for the first"))
        await _begun(run)
    while True:
        steps = _read(run, missing_is_empty=follow)
        for step in steps[shown:]:
            session.output.result(step, _line(step))
        shown = len(steps)
        if not follow:
            return
        await asyncio.sleep(EVERY_S)


@command(app, "report")
async def report(
    session: Session,
    run: Run,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML page to write.")] = Path(
        "training.html"
    ),
) -> None:
    """Write a page of plots: learning curves, reward, cost against accuracy, tool calls."""
    steps = _read(run)
    if not steps:
        raise UsageError(f"{run} has no step yet", "wait for the first; see `podium train watch`")
    document = {
        "kind": "training",
        "run": run.resolve().name if run.is_dir() else run.stem,
        "steps": [_document(step) for step in steps],
    }
    with writing(output):
        write_report_page(output, document)
    session.output.result({"page": str(output), "steps": len(steps)}, str(output))


def _document(step: Metrics) -> dict[str, object]:
    figures = {
        name: value for name, value in step.items() if name != "step" and math.isfinite(value)
    }
    return {"step": str(int(step["step"])), "figures": figures}


async def _begun(run: Path) -> None:
    """Waits for the folder, which a trainer makes as it starts. Raises UsageError."""
    ends = time.monotonic() + BEGIN_S
    while not await asyncio.to_thread(run.exists):
        if time.monotonic() > ends:
            raise UsageError(
                f"there is no run in {run}", "name the `output` of the run's file, and start it"
            )
        await asyncio.sleep(EVERY_S)


def _read(run: Path, missing_is_empty: bool = False) -> list[Metrics]:
    path = run / METRICS if run.is_dir() else run
    if missing_is_empty and not path.exists():
        return []
    try:
        return read_metrics(path)
    except InvalidMetrics as error:
        raise UsageError(str(error), "name the output folder of a run") from error


def _line(step: Metrics) -> str:
    def number(name: str, form: str) -> str:
        value = step.get(name)
        # A figure that a run does not write is unknown, not 0.
        return "?" if value is None else format(value, form)

    # A reason is written from its first record on.
    rejected = sum(count for name, count in step.items() if name.startswith(REJECTED))
    return (
        f"step {number('step', '.0f')}  reward {number('reward_mean', '.3f')}"
        f"  solved {number('reward_solved', '.0%')}  cost {number('cost_mean', '.4g')}"
        f"  drift {number('drift_mean', '.2g')}  lag {number('lag', '.0f')}"
        f"  rejected {rejected:.0f}"
    )
