"""The command that plays past tasks again in groups, for GRPO to learn from."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group as Lines
from rich.text import Text

from podium_cli.command import Session, command
from podium_cli.formats import format_money
from podium_cli.inputs import Judges, parse_seconds, parse_start
from podium_cli.output import writing
from podium_cli.train.choosing import (
    MaxTokens,
    Temperature,
    TimeLimit,
    TurnLimit,
    policy_named,
)
from podium_cli.train.replays import (
    playable_tasks,
    replay_agent,
    replay_budget,
    set_replay_budget,
    spent_today,
)
from podium_cli.train.rollout_view import rollout_table, rollout_values, summary
from podium_cli.train.rounds import BUDGET_EXHAUSTED
from podium_cli.train.train import app
from podium_evaluation.suites.past_episodes import EpisodeFilter
from podium_kit.client.errors import UsageError
from podium_kit.derived_ids import derived_uuid7, uuid7_of
from podium_kit.wire import money_from_proto
from podium_training.rollouts import Offer, RolloutLimits, plan
from podium_training.rollouts.rolling import Rolled, Roller
from podium_training.tasks.files import write_tasks


@command(app, "replay")
async def replay(
    session: Session,
    policy: Annotated[str, typer.Argument(help="Policy whose past tasks are played.")],
    *,
    since: Annotated[str, typer.Option(help="Of episodes from then on.")] = "30d",
    count: Annotated[int, typer.Option(min=1, max=5000, help="Most tasks.")] = 200,
    judge: Judges = None,
    held_out: Annotated[
        Path | None, typer.Option(help="JSONL file for the fifth that is not played.")
    ] = None,
    size: Annotated[int, typer.Option(min=2, max=64, help="Episodes per task: the group.")] = 8,
    at_once: Annotated[int, typer.Option(min=1, help="Episodes in flight.")] = 4,
    model: Annotated[str, typer.Option(help="Like candidate; users' by default.")] = "",
    turn_limit: TurnLimit = 6,
    time_limit: TimeLimit = "120s",
    temperature: Temperature = 1.0,
    max_tokens: MaxTokens = 512,
) -> None:
    """Play a policy's past tasks in groups, without effects, within its replay budget of the day.

    The policy consents to training and has `learning: {replay_budget: 5 USD}`; a budget of the
    ledger, `replay-POLICY`, bounds each day. Tasks are what users asked and a check or feedback
    judged, each once; a fifth is held out. The same command continues the groups of its day (UTC)
    and plays none twice.
    """
    limits = RolloutLimits(model, turn_limit, parse_seconds(time_limit), temperature, max_tokens)
    from_then = datetime.fromisoformat(parse_start(since))
    wanted = EpisodeFilter(policy, from_then, count=count, judges=judge or ())
    async with session.gateway() as gateway:
        limit = replay_budget(await policy_named(gateway, policy))
        past = await playable_tasks(gateway, session.output, wanted)
        if held_out is not None:
            with writing(held_out):
                write_tasks(held_out, past.held_out)
        if not past.learnt:
            raise UsageError(f"no past task of {policy} can be played", "see what was left out")
        await set_replay_budget(gateway, policy, limit)
        offer = Offer(past.tools, 0, policies=(policy,))
        groups = plan(_run_of_day(policy), past.learnt, size, offer)
        spent = False

        def progress(ended: Rolled) -> None:
            nonlocal spent
            spent = spent or ended.stop_reason == BUDGET_EXHAUSTED

        roller = Roller(gateway, limits, _run_of_day(policy), agent=replay_agent(policy))
        rolled = await roller.roll(groups, at_once, progress, lambda: not spent)
        posted = await spent_today(gateway, policy)
    played = [each for each in groups if any(one.group.id == each.id for one in rolled)]
    values = rollout_values(_run_of_day(policy), played, rolled)
    words = (
        f"{summary(rolled)}; {format_money(posted)} of the day's"
        f" {format_money(money_from_proto(limit))} spent"
    )
    session.output.result(
        {**values, "spent": posted.amount_string(), "budget_spent": spent},
        Lines(rollout_table(played, rolled), Text(words)),
    )


def _run_of_day(policy: str) -> str:
    """The same run all day, so that a command that is repeated continues it."""
    day = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    start = uuid7_of(round(day.timestamp() * 1000).to_bytes(6) + bytes(10))
    return derived_uuid7(start, "replay", policy)
