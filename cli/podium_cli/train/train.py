from pathlib import Path
from typing import Annotated

import typer
import uuid_utils
from rich.markup import escape

from podium_cli.command import Session, command
from podium_cli.inputs import PromptMode, parse_prompt_mode, parse_seconds
from podium_cli.output import Output, require_place, writing
from podium_cli.train.choosing import (
    Always,
    Count,
    Family,
    MaxTokens,
    Policies,
    PoliciesPerTask,
    PriceSpread,
    Seed,
    SplitName,
    SplitOption,
    Temperature,
    TimeLimit,
    ToolsMax,
    ToolSubsets,
    TurnLimit,
    Withhold,
    make_tasks,
    note_consent,
)
from podium_cli.train.rollout_view import rollout_table, rollout_values, summary
from podium_cli.train.rounds import planned
from podium_kit.client.errors import UsageError
from podium_training.rollouts import Offer, RolloutLimits
from podium_training.rollouts.rolling import Rolled, Roller, known_tools
from podium_training.tasks.files import read_tasks

app = typer.Typer(
    name="train",
    help="Make tasks, run episodes, and give users what was learnt.",
    no_args_is_help=True,
)


@command(app, "rollout")
async def rollout(
    session: Session,
    *,
    size: Annotated[int, typer.Option(min=1, help="Episodes per task: the group.")] = 8,
    at_once: Annotated[int, typer.Option(min=1, help="Episodes in flight.")] = 8,
    policy: Policies = None,
    policies_per_task: PoliciesPerTask = 1,
    model: Annotated[str, typer.Option(help="Orchestrator model; the default one.")] = "",
    tools: ToolsMax = 6,
    always: Always = None,
    tool_subsets: ToolSubsets = 0,
    price_spread: PriceSpread = 1.0,
    withhold: Withhold = 0.0,
    turn_limit: TurnLimit = 6,
    time_limit: TimeLimit = "120s",
    task_file: Annotated[Path | None, typer.Option(help="JSONL of `podium train tasks`.")] = None,
    count: Count = 8,
    split: SplitOption = SplitName.TRAIN,
    seed: Seed = 0,
    family: Family = None,
    resume: Annotated[str, typer.Option(help="Run to resume, with the same options.")] = "",
    evaluation: Annotated[
        Path | None, typer.Option(help="JSONL file to write for `podium train gate`.")
    ] = None,
    temperature: Temperature = 1.0,
    max_tokens: MaxTokens = 512,
    prompt_mode: PromptMode = "",
    greedy: Annotated[
        bool, typer.Option("--greedy", help="The likeliest tokens, as users get; to measure only.")
    ] = False,
) -> None:
    """Run groups of episodes of one task each; every answer is verified.

    --resume continues an interrupted run: no episode is started twice.
    """
    if evaluation is not None:
        require_place(evaluation)
    chosen = read_tasks(task_file) if task_file else make_tasks(count, split, seed, family)
    run_id = resume or str(uuid_utils.uuid7())
    sampled_at = _temperature(temperature, greedy)
    limits = RolloutLimits(
        model,
        turn_limit,
        parse_seconds(time_limit),
        sampled_at,
        max_tokens,
        parse_prompt_mode(prompt_mode),
    )
    session.output.note(escape(f"run {run_id}; `--resume {run_id}` resumes it"))
    async with session.gateway() as gateway:
        await note_consent(session.output, gateway, policy or [""], chosen)
        offer = Offer(
            await known_tools(gateway, policy or []),
            tools,
            price_spread,
            tool_subsets,
            tuple(always or ()),
            tuple(policy or ()),
            withhold,
            policies_per_task,
        )
        groups = planned(run_id, chosen, size, offer)
        roller = Roller(gateway, limits, run_id)
        counted = _Counted(session.output, sum(len(group.rollouts) for group in groups))
        rolled = await roller.roll(groups, at_once, counted)
    session.output.result(rollout_values(run_id, groups, rolled), rollout_table(groups, rolled))
    session.output.note(summary(rolled))
    if evaluation is not None:
        lines = [each.evaluated.model_dump_json() for each in rolled if each.evaluated]
        with writing(evaluation):
            evaluation.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _temperature(asked: float, greedy: bool) -> float:
    if greedy and asked != 1:
        raise UsageError(
            "--greedy takes the likeliest tokens at any --temperature", "leave out one"
        )
    return 0.0 if greedy else asked


class _Counted:
    def __init__(self, output: Output, total: int) -> None:
        self._output, self._total, self._done = output, total, 0

    def __call__(self, rolled: Rolled) -> None:
        self._done += 1
        unjudged = f"unjudged: {rolled.reason}"
        score = unjudged if rolled.score is None else f"{rolled.score:g}"
        place = f"{rolled.group.task.id} #{rolled.rollout.sample_index}"
        line = f"{self._done}/{self._total} {place}: {score} ({rolled.stop_reason})"
        self._output.note(escape(line))
