"""The commands about stored runs: list, pause, stop; and the app that all of the group join."""

from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from podium.common.v1 import money_pb2
from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium_cli.command import Session, command
from podium_cli.formats import format_money, format_time
from podium_cli.listing import Listing, listing
from podium_evaluation.runs.names import path_of
from podium_kit.bundled_files import bundled_folder
from podium_kit.client.gateway import Gateway
from podium_kit.wire import enum_word, optional_money_from_proto

app = typer.Typer(
    name="eval",
    help="Measure arms on a suite: run, watch, report, compare, with intervals.",
    no_args_is_help=True,
)
RunId = Annotated[str, typer.Argument(help="Id of the run.", show_default=False)]


@command(app, "suites")
async def suites(session: Session) -> None:
    """List the run files that come with Podium: start from one of them."""
    files = sorted((bundled_folder() / "suites").glob("*.yaml"))
    rows = [(path.stem, str(path)) for path in files]
    values = {"suites": [{"name": name, "file": path} for name, path in rows]}
    session.output.result(values, listing(("suite", "file"), rows))


@command(app, "list")
async def list_runs(session: Session) -> None:
    """List runs, newest first."""
    async with session.gateway() as gateway:
        found = await gateway.all("/v1/evaluations", pb.ListEvaluationsResponse)
    rows = [
        (
            each.id,
            each.suite,
            ", ".join(arm.name for arm in each.arms),
            state_of(each),
            format_time(each.create_time),
        )
        for each in found.evaluations
    ]
    columns = ("run", "suite", "arms…", "state", "created")
    session.output.result(found, listing(columns, rows))


@command(app, "show")
async def show(session: Session, run: RunId) -> None:
    """Show how far a run has come."""
    async with session.gateway() as gateway:
        found = await gateway.get(path_of(run), pb.GetEvaluationResponse)
    session.output.result(found, Group(progress_table(found), Text(state_of(found.evaluation))))


@command(app, "pause")
async def pause(session: Session, run: RunId) -> None:
    """Start no other trial until `podium eval resume`; those that have begun end."""
    async with session.gateway() as gateway:
        changed = await change(gateway, run, pb.EVALUATION_STATE_PAUSED)
    session.output.result(changed, f"{run} is {state_of(changed)}")


@command(app, "stop")
async def stop(session: Session, run: RunId) -> None:
    """End a run; trials that were not started count as not run, and never as wrong."""
    async with session.gateway() as gateway:
        changed = await change(gateway, run, pb.EVALUATION_STATE_ENDED, "stopped by hand")
    session.output.result(changed, f"{run} is {state_of(changed)}")


async def change(
    gateway: Gateway, run: str, state: pb.EvaluationState.ValueType, reason: str = ""
) -> pb.Evaluation:
    body = {"state": pb.EvaluationState.Name(state), "reason": reason}
    return (await gateway.patch(path_of(run), body, pb.UpdateEvaluationResponse)).evaluation


def state_of(evaluation: pb.Evaluation) -> str:
    word = enum_word(pb.EvaluationState.Name(evaluation.state), "EVALUATION_STATE_")
    return f"{word}: {evaluation.reason}" if evaluation.reason else word


def progress_table(found: pb.GetEvaluationResponse) -> Listing:
    ends = ("judged#", "score#", "unjudged#", "not run#", "diverged#")
    columns = ("arm", *ends, "left#", "cost#", "users#", "checks#")
    return listing(columns, [_row(each) for each in found.progress])


def _row(arm: pb.ArmProgress) -> tuple[str, ...]:
    return (
        arm.arm,
        str(arm.judged_count),
        f"{arm.score_sum / arm.judged_count:.3f}" if arm.judged_count else "",
        str(arm.unjudged_count),
        str(arm.not_run_count),
        str(arm.diverged_count),
        str(arm.planned_count + arm.running_count),
        _cost(arm),
        paid(arm.simulator_cost),
        paid(arm.judge_cost),
    )


def paid(cost: money_pb2.Money) -> str:
    return format_money(optional_money_from_proto(cost))


def _cost(arm: pb.ArmProgress) -> str:
    known = format_money(optional_money_from_proto(arm.cost))
    return f"{known} and unknown" if arm.unpriced_call_count else known
