import asyncio
from typing import Annotated

import typer

from podium_cli.command import Session, command
from podium_cli.output import Output
from podium_cli.train.train import app
from podium_kit.client.errors import UserError
from podium_operations.cluster.training_runs import TrainingRuns

EVERY_S = 5.0
Release = Annotated[str, typer.Option(help="Helm release of the platform.")]
Namespace = Annotated[str, typer.Option(help="Its namespace; kubectl's by default.")]
Context = Annotated[str, typer.Option(help="kubectl's context of the cluster.")]
Run = Annotated[str, typer.Argument(help="Name of the run; the newest by default.")]


@command(app, "logs")
async def logs(
    session: Session,
    run: Run = "",
    *,
    follow: Annotated[bool, typer.Option(help="Continue until the run ends.")] = False,
    release: Release = "podium",
    namespace: Namespace = "",
    context: Context = "",
) -> None:
    """Show what the first process of a run on a cluster writes."""
    runs = TrainingRuns(release, namespace, context)
    name = run or await runs.newest()
    session.output.note(f"run {name}")
    await runs.show_logs(name, follow=follow)


@command(app, "stop")
async def stop(
    session: Session,
    run: Run = "",
    *,
    release: Release = "podium",
    namespace: Namespace = "",
    context: Context = "",
) -> None:
    """End a run on a cluster. Its checkpoints stay: the next run with its output continues."""
    runs = TrainingRuns(release, namespace, context)
    name = run or await runs.newest()
    await runs.stop(name)
    session.output.result({"run": name}, f"run {name} ends")


async def submit_to_cluster(output: Output, runs: TrainingRuns, *, wait: bool) -> None:
    """Begins a run; with `wait` says how it goes until it ends. Raises UserError when it fails."""
    name = await runs.start()
    output.note(f"run {name}; `podium train logs {name}` and `stop {name}` are about it")
    shown = ""
    while wait:
        state = await runs.state(name)
        if state.line != shown:
            output.note(state.line)
            shown = state.line
        if state.failed:
            raise UserError(f"run {name} {state.line}", f"see why: podium train logs {name}")
        if state.ended:
            break
        await asyncio.sleep(EVERY_S)
    output.result({"run": name}, name)
