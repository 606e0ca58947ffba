"""The command that plays past tasks again in groups, for GRPO to learn from."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group as Lines
from rich.text import Text

from podium.common.v1 import money_pb2
from podium.ledger.v1 import budget_service_pb2
from podium_cli.command import Session, command
from podium_cli.formats import counted, format_money
from podium_cli.inputs import parse_seconds, parse_start
from podium_cli.output import writing
from podium_cli.train.choosing import (
    MaxTokens,
    Temperature,
    TimeLimit,
    TurnLimit,
    policy_named,
)
from podium_cli.train.rollout_view import rollout_table, rollout_values, summary
from podium_cli.train.train import app
from podium_evaluation.suites.past_episodes import EpisodeFilter, past_tasks
from podium_kit.client.errors import UsageError
from podium_kit.client.gateway import Gateway, segment
from podium_kit.client.rejections import Rejected
from podium_kit.derived_ids import derived_uuid7, uuid7_of
from podium_kit.wire import money_from_proto
from podium_training.rollouts import Offer, RolloutLimits, plan
from podium_training.rollouts.rolling import Rolled, Roller, known_tools
from podium_training.tasks.splits import split_of
from podium_training.tasks.task import Split

BUDGET_EXHAUSTED = "budget exhausted"


@command(app, "replay")
async def replay(
    session: Session,
    policy: Annotated[str, typer.Argument(help="Policy whose past tasks are played.")],
    *,
    since: Annotated[str, typer.Option(help="Of episodes from then on.")] = "30d",
    count: Annotated[int, typer.Option(min=1, max=5000, help="Most tasks.")] = 200,
    judge: Annotated[str, typer.Option(help="Tool of kind llm for answers of many words.")] = "",
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
    wanted = EpisodeFilter(policy, from_then, count=count, judge=judge)
    async with session.gateway() as gateway:
        limit = await _replay_budget(gateway, policy)
        found = await past_tasks(gateway, wanted)
        for reason, left_out in found.left_out.most_common():
            session.output.note(f"{counted(left_out, 'episode')} left out: {reason}")
        tools = await known_tools(gateway, [policy])
        past = [
            replace(task, split=split_of(task.id))
            for task in found.tasks.values()
            if set(task.tools) <= tools.keys()
        ]
        learnt = [task for task in past if task.split is Split.TRAIN]
        if held_out is not None:
            kept = [f"{task.to_json()}\n" for task in past if task.split is Split.HELD_OUT]
            with writing(held_out):
                held_out.write_text("".join(kept), encoding="utf-8")
        if not learnt:
            raise UsageError(f"no past task of {policy} can be played", "see what was left out")
        budget = f"replay-{policy}"
        await _set_budget(gateway, budget, limit)
        groups = plan(_run_of_day(policy), learnt, size, Offer(tools, 0, policies=(policy,)))
        spent = False

        def progress(ended: Rolled) -> None:
            nonlocal spent
            spent = spent or ended.stop_reason == BUDGET_EXHAUSTED

        roller = Roller(gateway, limits, _run_of_day(policy), agent=budget)
        rolled = await roller.roll(groups, at_once, progress, lambda: not spent)
        path = f"/v1/budgets/{segment(budget)}"
        status = (await gateway.get(path, budget_service_pb2.GetBudgetResponse)).status
    posted = money_from_proto(status.posted)
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


async def _replay_budget(gateway: Gateway, name: str) -> money_pb2.Money:
    policy = await policy_named(gateway, name)
    if not policy.spec.training_consent:
        raise UsageError(
            f"policy {name} does not consent to training, so its episodes are not read",
            "add `training_consent: true` to it",
        )
    if not policy.spec.learning.HasField("replay_budget"):
        raise UsageError(
            f"policy {name} has no replay budget", "add `learning: {replay_budget: 5 USD}` to it"
        )
    return policy.spec.learning.replay_budget


async def _set_budget(gateway: Gateway, name: str, limit: money_pb2.Money) -> None:
    """Creates the budget of a day, or brings the one there is to the policy's limit."""
    budget = budget_service_pb2.Budget(
        id=name,
        scope=budget_service_pb2.BUDGET_SCOPE_AGENT,
        scope_id=name,
        window=budget_service_pb2.BUDGET_WINDOW_DAY,
        hard_limit=limit,
    )
    request = budget_service_pb2.CreateBudgetRequest(budget=budget)
    try:
        await gateway.post("/v1/budgets", request, budget_service_pb2.CreateBudgetResponse)
    except Rejected as error:
        if error.reason != "BUDGET_CONFLICT":
            raise
        change = budget_service_pb2.UpdateBudgetRequest(hard_limit=limit)
        change.update_mask.paths.append("hard_limit")
        path = f"/v1/budgets/{segment(name)}"
        await gateway.patch(path, change, budget_service_pb2.UpdateBudgetResponse)


def _run_of_day(policy: str) -> str:
    """The same run all day, so that a command that is repeated continues it."""
    day = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    start = uuid7_of(round(day.timestamp() * 1000).to_bytes(6) + bytes(10))
    return derived_uuid7(start, "replay", policy)
