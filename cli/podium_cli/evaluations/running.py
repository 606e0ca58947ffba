"""The commands that start runs and follow them."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
import uuid_utils
from rich.markup import escape

from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium_cli.command import Session, command
from podium_cli.evaluations.reporting import write_report
from podium_cli.evaluations.runs import RunId, app, change, progress_table, state_of
from podium_cli.formats import counted, format_money, format_seconds
from podium_cli.output import Output, require_place
from podium_cli.train.runs import rollout_settings
from podium_evaluation.runs.names import path_of
from podium_evaluation.runs.payloads import EvaluationRun
from podium_evaluation.runs.preparing import create, judges_of, prepare, trial_count
from podium_evaluation.suites.run_file import RunFile, read_run_file
from podium_evaluation.suites.suite import load_suite
from podium_kit.bundled_files import bundled_folder
from podium_kit.client.gateway import Gateway
from podium_kit.wire import money_from_proto, timestamp_from_proto

POLL_S = 1.0
Report = Annotated[Path | None, typer.Option("--report", "-o", help="HTML page to write.")]
Detach = Annotated[
    bool, typer.Option("--detach", help="Leave the run to `podium train worker` or a pod.")
]
AtOnce = Annotated[int, typer.Option(min=1, max=1024, help="Trials in flight.")]


@command(app, "run")
async def run(
    session: Session,
    file: Annotated[Path, typer.Argument(help="YAML file, or a name of `podium eval suites`.")],
    *,
    report: Report = None,
    detach: Detach = False,
) -> None:
    """Check a run, play its trials within its budget, and show what became of them.

    A platform on this machine is served by this command itself. Interrupted, the run is as it was:
    `podium eval resume` continues it, and no trial is played or charged twice.
    """
    await run_checked(session, read_run_file(_found(file)), report, detach=detach)


async def run_checked(
    session: Session, wanted: RunFile, report: Path | None, *, detach: bool
) -> None:
    suite = load_suite(wanted.suite)
    if report is not None:
        require_place(report)
    if suite.left_out:
        session.output.warn(
            f"{counted(suite.left_out, 'question')} left out: nothing here can score them;"
            " name a `judge`"
        )
    evaluation_id = str(uuid_utils.uuid7())
    async with session.gateway() as gateway:
        request = await prepare(gateway, evaluation_id, wanted, suite)
        await create(gateway, request, wanted.budget_usd, judges_of(suite))
        count = trial_count(wanted, suite)
        session.output.note(
            escape(f"run {evaluation_id}: {counted(count, 'trial')} of {suite.name}")
        )
        rate = wanted.starts_per_minute or 0
        plan = EvaluationRun(evaluation_id, count, wanted.at_once, rate)
        await _play(session, gateway, plan, report, detach=detach)


@command(app, "resume")
async def resume(
    session: Session,
    run: RunId,
    *,
    at_once: AtOnce = 4,
    report: Report = None,
    detach: Detach = False,
) -> None:
    """Continue a run that was interrupted, paused or stopped; what is over stays as it is.

    One that its budget ended needs another limit first: `podium budgets update evaluation-RUN`.
    """
    async with session.gateway() as gateway:
        found = await gateway.get(path_of(run), pb.GetEvaluationResponse)
        await change(gateway, run, pb.EVALUATION_STATE_RUNNING)
        plan = EvaluationRun(run, sum(map(trials_of, found.progress)), at_once)
        await _play(session, gateway, plan, report, detach=detach)


@command(app, "watch")
async def watch(session: Session, run: RunId) -> None:
    """Show how far a run has come until it ends; Ctrl-C leaves it running."""
    async with session.gateway() as gateway:
        await _show(session.output, await _followed(session.output, gateway, run))


def trials_of(arm: pb.ArmProgress) -> int:
    over = arm.judged_count + arm.unjudged_count + arm.not_run_count + arm.diverged_count
    return arm.planned_count + arm.running_count + over


def _found(file: Path) -> Path:
    bundled = bundled_folder() / "suites" / f"{file.name}.yaml"
    return bundled if not file.exists() and file.name == str(file) and bundled.exists() else file


async def _play(
    session: Session, gateway: Gateway, plan: EvaluationRun, report: Path | None, *, detach: bool
) -> None:
    settings = rollout_settings(session.target)
    # Temporal's client is slow to import.
    from podium_evaluation.runs.submission import (  # noqa: PLC0415
        start_evaluation,
        work_on_both,
    )
    from podium_training.rollouts.submission import ended, open_temporal  # noqa: PLC0415

    client = await open_temporal(settings, settings.temporal_target)
    handle = await start_evaluation(client, settings.task_queue, plan)
    if detach:
        session.output.result({"run": plan.evaluation_id}, plan.evaluation_id)
        return
    served = session.target.url is None
    async with _working(work_on_both(client, settings.task_queue, gateway) if served else None):
        following = asyncio.create_task(_followed(session.output, gateway, plan.evaluation_id))
        try:
            await ended(handle)
            found = await following
        finally:
            following.cancel()
    if report is not None:
        await write_report(session.output, gateway, plan.evaluation_id, report)
    await _show(session.output, found)


@asynccontextmanager
async def _working(work: object) -> AsyncIterator[None]:
    """A worker beside what is done inside; its failure ends that."""
    if not asyncio.iscoroutine(work):
        yield
        return
    working = asyncio.create_task(work)
    current = asyncio.current_task()
    assert current is not None
    working.add_done_callback(lambda ended: None if ended.cancelled() else current.cancel())
    try:
        yield
    finally:
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working


async def _followed(output: Output, gateway: Gateway, run: str) -> pb.GetEvaluationResponse:
    """Notes the progress until the run ended and none of its trials runs."""
    shown: tuple[int, int] | None = None
    begun, before = time.monotonic(), -1
    while True:
        found = await gateway.get(path_of(run), pb.GetEvaluationResponse)
        total = sum(map(trials_of, found.progress))
        open_count = sum(arm.planned_count + arm.running_count for arm in found.progress)
        if before < 0:
            before = total - open_count
        done = total - open_count - before
        if shown != (open_count, found.evaluation.state):
            trial_s = (time.monotonic() - begun) / done if done else None
            output.note(escape(_line(found, total, open_count, trial_s)))
            shown = (open_count, found.evaluation.state)
        if found.evaluation.state == pb.EVALUATION_STATE_ENDED and not any(
            arm.running_count for arm in found.progress
        ):
            return found
        await asyncio.sleep(POLL_S)


def _line(
    found: pb.GetEvaluationResponse, total: int, open_count: int, trial_s: float | None
) -> str:
    paid = [(arm.cost, arm.simulator_cost, arm.judge_cost) for arm in found.progress]
    costs = [money_from_proto(each) for arm in paid for each in arm]
    spent = sum(costs[1:], costs[0])
    left = f", {format_seconds(trial_s * open_count)} left" if trial_s and open_count else ""
    unknown = " and unknown" if any(arm.unpriced_call_count for arm in found.progress) else ""
    paused = found.evaluation.state == pb.EVALUATION_STATE_PAUSED
    state = ", paused" if paused else ""
    return f"{total - open_count} of {total} trials, {format_money(spent)}{unknown}{left}{state}"


async def _show(output: Output, found: pb.GetEvaluationResponse) -> None:
    output.result(found, progress_table(found))
    evaluation = found.evaluation
    took = timestamp_from_proto(evaluation.end_time) if evaluation.HasField("end_time") else None
    taken = (took or datetime.now(UTC)) - timestamp_from_proto(evaluation.create_time)
    output.note(escape(f"{state_of(evaluation)} after {format_seconds(taken.total_seconds())}"))
    if evaluation.reason:
        output.note(escape(f"`podium eval resume {evaluation.id}` continues it"))
