from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
import uuid_utils

from episodes.workflows.settings import TemporalSettings
from podium_cli.command import Session, command
from podium_cli.inputs import PromptMode, parse_prompt_mode, parse_seconds
from podium_cli.target import Target
from podium_cli.train.choosing import (
    Always,
    MaxTokens,
    Policies,
    PriceSpread,
    Temperature,
    TimeLimit,
    ToolsMax,
    ToolSubsets,
    TurnLimit,
    Withhold,
    note_consent,
)
from podium_cli.train.cluster import Context, Namespace, Release, submit_to_cluster
from podium_cli.train.train import app
from podium_kit.client.errors import UsageError
from podium_operations.cluster.training_runs import TrainingRuns
from podium_training.rollouts import RolloutLimits
from podium_training.rollouts.payloads import RolloutProgress, RolloutRun
from podium_training.rollouts.plan import InvalidRun, check_run_id
from podium_training.rollouts.settings import RolloutSettings
from podium_training.tasks.files import read_tasks, task_digest


@command(app, "submit")
async def submit(
    session: Session,
    *,
    task_file: Annotated[
        Path | None, typer.Option(help="JSONL of `podium train tasks`, where workers find it, too.")
    ] = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Instead begin the chart's run of training.")
    ] = False,
    release: Release = "podium",
    namespace: Namespace = "",
    context: Context = "",
    size: Annotated[int, typer.Option(min=1, help="Episodes per task: the group.")] = 8,
    at_once: Annotated[int, typer.Option(min=1, help="Groups in flight.")] = 2,
    policy: Policies = None,
    model: Annotated[str, typer.Option(help="Like candidate; users' by default.")] = "",
    tools: ToolsMax = 6,
    always: Always = None,
    tool_subsets: ToolSubsets = 0,
    price_spread: PriceSpread = 1.0,
    withhold: Withhold = 0.0,
    turn_limit: TurnLimit = 6,
    time_limit: TimeLimit = "120s",
    run: Annotated[str, typer.Option(help="Id of an earlier run, to resume it.")] = "",
    temperature: Temperature = 1.0,
    max_tokens: MaxTokens = 512,
    prompt_mode: PromptMode = "",
    cron: Annotated[str, typer.Option(help='Again and again, like "0 3 * * *" (UTC).')] = "",
    name: Annotated[str, typer.Option(help="Name of the schedule.")] = "rollouts",
    wait: Annotated[bool, typer.Option(help="Wait for the end.")] = False,
) -> None:
    """Hand a run of groups to `podium train worker`; workers may be killed and come back.

    With --cluster it begins a run of training on the cluster that kubectl knows, as the chart
    describes it, and with --wait says how it goes.
    """
    if cluster:
        if task_file is not None:
            raise UsageError(
                "--cluster begins a run that learns from trajectories", "leave out --task-file"
            )
        runs = TrainingRuns(release, namespace, context)
        await submit_to_cluster(session.output, runs, wait=wait)
        return
    if task_file is None:
        raise UsageError("--task-file is missing", "name it, or say --cluster")
    if run:
        try:
            check_run_id(run)
        except InvalidRun as error:
            raise UsageError(str(error)) from error
    tasks = read_tasks(task_file)
    wanted = RolloutRun(
        task_file=str(task_file.resolve()),
        task_digest=task_digest(task_file),
        group_size=size,
        groups_at_once=at_once,
        tools_max=tools,
        limits=RolloutLimits(
            model,
            turn_limit,
            parse_seconds(time_limit),
            temperature,
            max_tokens,
            parse_prompt_mode(prompt_mode),
        ),
        run_id=run or ("" if cron else str(uuid_utils.uuid7())),
        price_spread=price_spread,
        tool_subsets=tool_subsets,
        always=always or [],
        policies=policy or [],
        withheld=withhold,
    )
    async with session.gateway() as gateway:
        await note_consent(session.output, gateway, policy or [""], tasks)
    settings = rollout_settings(session.target)
    # Temporal's client is slow to import and needed here alone, as in `worker`.
    from podium_training.rollouts.submission import (  # noqa: PLC0415
        ended,
        open_temporal,
        schedule_runs,
        start_run,
    )

    client = await open_temporal(settings, settings.temporal_target)
    if cron:
        await schedule_runs(client, settings.task_queue, wanted, name, cron)
        session.output.result({"schedule": name}, f"schedule {name}: {cron}")
        return
    handle = await start_run(client, settings.task_queue, wanted)
    session.output.note(f"run {wanted.run_id} is workflow {handle.id}")
    if wait:
        done = await ended(handle)
        session.output.result(asdict(done), _line(done))
    else:
        session.output.result({"run": wanted.run_id, "workflow": handle.id}, handle.id)


@command(app, "worker")
async def worker(session: Session) -> None:
    """Run what was submitted, evaluations as well, until Ctrl-C. Any number of workers may run."""
    settings = rollout_settings(session.target)
    from podium_evaluation.runs.submission import work_on_both  # noqa: PLC0415
    from podium_training.rollouts.submission import open_temporal  # noqa: PLC0415

    client = await open_temporal(settings, settings.temporal_target)
    async with session.gateway() as gateway:
        session.output.note(f"working on task queue {settings.task_queue}; Ctrl-C ends it")
        await work_on_both(client, settings.task_queue, gateway)


def _line(found: RolloutProgress) -> str:
    done = found.done
    return (
        f"{done.solved} of {done.episodes} episodes solved, {done.unjudged} unjudged,"
        f" in {done.groups} of {found.group_count} groups"
    )


def rollout_settings(target: Target) -> RolloutSettings:
    settings = RolloutSettings()
    if settings.temporal_target:
        return settings
    if target.url is not None:
        fix = "set PODIUM_TRAIN_TEMPORAL_TARGET"
        raise UsageError(f"no Temporal named for {target.url}", fix)
    here = target.state.read_connection()
    return RolloutSettings(
        temporal_target=here.temporal_target, temporal=TemporalSettings(**here.temporal)
    )
