"""The commands that learn from what a policy's users do, and show what came of it."""

import asyncio
import fcntl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from podium.registry.v1 import policy_pb2
from podium_cli.command import Session, command
from podium_cli.formats import format_time
from podium_cli.inputs import Judges, parse_seconds, parse_start
from podium_cli.listing import Listing, listing
from podium_cli.tools.recalibrating import EPISODES_DEFAULT, Recalibration, recalibrated
from podium_cli.train.choosing import (
    Curriculum,
    MaxTokens,
    Temperature,
    TimeLimit,
    TurnLimit,
    policy_named,
)
from podium_cli.train.learning_journal import LearningJournal, learning_steps
from podium_cli.train.train import app
from podium_evaluation.suites.past_episodes import EpisodeFilter
from podium_kit.client.errors import UsageError
from podium_kit.wire import enum_word, json_values
from podium_training.gate import GateRules, Objective
from podium_training.rollouts import RolloutLimits

PolicyName = Annotated[str, typer.Argument(help="Policy whose users are learnt from.")]


@command(app, "production")
async def production(
    session: Session,
    policy: PolicyName,
    *,
    run: Annotated[
        Path,
        typer.Option(
            envvar="PODIUM_TRAIN_RUN", help="YAML file of training, with a section publish."
        ),
    ],
    once: Annotated[
        bool, typer.Option("--once", help="One cycle; without it, one a day until Ctrl-C.")
    ] = False,
    since: Annotated[str, typer.Option(help="Of episodes from then on.")] = "30d",
    count: Annotated[int, typer.Option(min=1, max=5000, help="Most past tasks.")] = 1000,
    judge: Judges = None,
    groups: Annotated[int, typer.Option(min=1, help="Tasks of a round of replays.")] = 24,
    size: Annotated[int, typer.Option(min=2, max=64, help="Episodes per task: the group.")] = 8,
    at_once: Annotated[int, typer.Option(min=1, help="Episodes in flight.")] = 4,
    curriculum: Curriculum = False,
    objective: Annotated[
        Objective, typer.Option(help="What the gate wants to be better.")
    ] = Objective.SCORE,
    delta: Annotated[float, typer.Option(min=0, help="Score the gate lets it lose.")] = 0.02,
    pairs_min: Annotated[int, typer.Option(min=1, help="Held-out tasks that the gate needs.")] = 30,
    share: Annotated[
        float, typer.Option(min=0.001, max=0.5, help="Of the traffic that the canary gets.")
    ] = 0.05,
    margin: Annotated[
        float, typer.Option(min=0, max=1, help="Score the canary may lose; 0: surely better.")
    ] = 0.05,
    canary_time: Annotated[str, typer.Option(help="Longest canary.")] = "7d",
    describe_with: Annotated[
        str, typer.Option(help="Tool of kind llm that describes tools anew after a cycle.")
    ] = "",
    approve: Annotated[
        bool, typer.Option("--approve", help="Register descriptions that are within bounds.")
    ] = False,
    turn_limit: TurnLimit = 6,
    time_limit: TimeLimit = "120s",
    temperature: Temperature = 1.0,
    max_tokens: MaxTokens = 512,
) -> None:
    """Learn a version from a policy's past tasks, gate it, try it on a canary, and promote it.

    The policy consents to training and has `learning: {replay_budget: 5 USD}`, which pays for all
    replays. Each stage is recorded on the platform and in its audit log; the same command
    continues behind the last one. `learning: {paused: true}` or the end of consent stops it
    before the next stage, and ends its canary. With --describe-with a cycle ends as `podium tools
    recalibrate` does.
    """
    # The stream's client is slow to import, and no other command of the group needs it.
    from podium_cli.train.cycle import BudgetSpent, Cycle, CycleRules, Stopped  # noqa: PLC0415
    from podium_cli.train.replays import replay_budget  # noqa: PLC0415
    from podium_cli.train.rounds import Pace, publishing, read_run  # noqa: PLC0415

    if approve and not describe_with:
        raise UsageError("--approve is for descriptions", "give --describe-with TOOL, too")
    config = read_run(run)
    publishing(config)
    gate = GateRules(objective=objective, delta=delta, pairs_min=pairs_min)
    rules = CycleRules(gate, share, margin, parse_seconds(canary_time))
    limits = RolloutLimits("", turn_limit, parse_seconds(time_limit), temperature, max_tokens)
    with _alone(config.output, policy):
        while True:
            async with session.gateway() as gateway:
                journal = await LearningJournal.open(gateway, policy)
                if not journal.steps:
                    replay_budget(await policy_named(gateway, policy))
                from_then = datetime.fromisoformat(parse_start(since))
                wanted = EpisodeFilter(policy, from_then, count=count, judges=judge or ())
                cycle = Cycle(
                    gateway=gateway,
                    output=session.output,
                    journal=journal,
                    run=run,
                    wanted=wanted,
                    limits=limits,
                    pace=Pace(groups, size, at_once, ahead=1, curriculum=curriculum),
                    rules=rules,
                )
                try:
                    step = await cycle.play()
                    session.output.result(json_values(step), step.summary)
                except (Stopped, BudgetSpent) as reason:
                    session.output.result({"stopped": str(reason)}, str(reason))
                else:
                    if describe_with:
                        renewal = Recalibration(gateway, describe_with, EPISODES_DEFAULT, approve)
                        await recalibrated(session.output, renewal, [])
            if once:
                return
            await asyncio.sleep(_until_tomorrow_s())


@command(app, "cycles")
async def cycles(session: Session, policy: PolicyName) -> None:
    """List the recorded stages of learning from a policy's users, newest first."""
    async with session.gateway() as gateway:
        served = (await policy_named(gateway, policy)).model
        steps = await learning_steps(gateway, policy)
    values = {"model": served, "steps": [json_values(step) for step in steps]}
    session.output.result(values, _step_table(steps))


def _step_table(steps: Sequence[policy_pb2.LearningStep]) -> Listing:
    rows = [
        (
            format_time(step.create_time),
            step.cycle[:13],
            _stage(step),
            step.model or "-",
            step.summary,
        )
        for step in steps
    ]
    return listing(("time", "cycle", "stage", "model", "what came of it…"), rows)


def _stage(step: policy_pb2.LearningStep) -> str:
    return enum_word(policy_pb2.LearningStage.Name(step.stage), "LEARNING_STAGE_")


@contextmanager
def _alone(output: Path, policy: str) -> Iterator[None]:
    """Raises UsageError while another command learns from the policy into the folder."""
    output.mkdir(parents=True, exist_ok=True)
    with (output / f"{policy}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            cause = f"another command learns from policy {policy} into {output}"
            raise UsageError(cause, "wait for it, or stop it") from error
        yield


def _until_tomorrow_s() -> float:
    """The replay budget is that of a day in UTC."""
    now = datetime.now(UTC)
    tomorrow = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return (tomorrow - now).total_seconds()
