from pathlib import Path
from typing import Annotated

import typer

from podium.orchestrator.v1 import model_version_service_pb2 as pb
from podium_cli.command import Session, command
from podium_cli.inputs import PromptMode, parse_prompt_mode, parse_seconds
from podium_cli.train.choosing import (
    Always,
    Curriculum,
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
from podium_cli.train.gated_versions import decided, latest_decision
from podium_cli.train.train import app
from podium_cli.train.versions import decision_table
from podium_kit.client.errors import UsageError, UserError
from podium_kit.client.gateway import segment
from podium_kit.policy_versions import Alias, Aliases
from podium_training.gate import (
    GateRules,
    Objective,
    Verdict,
)
from podium_training.rollouts import Offer, RolloutLimits
from podium_training.rollouts.rolling import known_tools
from podium_training.tasks.files import read_tasks
from podium_training.tasks.task import Split, Task


@command(app, "improve")
async def improve(
    session: Session,
    config: Annotated[Path, typer.Argument(help="YAML file of the run, with a section publish.")],
    *,
    task_file: Annotated[Path, typer.Option(help="JSONL of `podium train tasks` to learn from.")],
    held_out: Annotated[
        Path | None, typer.Option(help="JSONL of tasks to measure on; without it nothing is.")
    ] = None,
    promote: Annotated[
        bool, typer.Option("--promote", help="Give users what the gate lets through.")
    ] = False,
    groups: Annotated[int, typer.Option(min=1, help="Tasks of a round.")] = 24,
    size: Annotated[int, typer.Option(min=2, help="Episodes per task: the group.")] = 8,
    at_once: Annotated[int, typer.Option(min=1, help="Episodes in flight.")] = 16,
    ahead: Annotated[
        int, typer.Option(min=0, max=8, help="Rounds played before an earlier one is learnt.")
    ] = 1,
    curriculum: Curriculum = False,
    skip_lost: Annotated[
        bool, typer.Option("--skip-lost", help="Continue where the stream lost records, or all.")
    ] = False,
    objective: Annotated[
        Objective, typer.Option(help="What the result must be better at.")
    ] = Objective.SCORE,
    policy: Policies = None,
    tools: ToolsMax = 6,
    always: Always = None,
    tool_subsets: ToolSubsets = 0,
    price_spread: PriceSpread = 1.0,
    withhold: Withhold = 0.0,
    turn_limit: TurnLimit = 6,
    time_limit: TimeLimit = "120s",
    temperature: Temperature = 1.0,
    max_tokens: MaxTokens = 512,
    prompt_mode: PromptMode = "",
) -> None:
    """Play rounds of episodes while the trainer learns from them, then measure and decide.

    Starts the trainer of the run, and plays as its newest version until all steps are done.
    The same command continues with a run that was interrupted; what was decided about its last
    version is not measured again. Exit status 1 when it was
    measured and did not become better.
    """
    # The stream's client is slow to import, and no other command of the group needs it.
    from podium_cli.train.rounds import (  # noqa: PLC0415
        Pace,
        Rounds,
        is_trained,
        make_trainer,
        publishing,
        read_run,
    )

    run = read_run(config)
    store = publishing(run).store
    if promote and held_out is None:
        raise UsageError("--promote decides on what was measured", "give --held-out as well")
    tasks, held = read_tasks(task_file), read_tasks(held_out) if held_out else []
    _check_apart(tasks, held)
    limits = RolloutLimits(
        turn_limit=turn_limit,
        time_limit_s=parse_seconds(time_limit),
        temperature=temperature,
        max_tokens=max_tokens,
        prompt_mode=parse_prompt_mode(prompt_mode),
    )
    run.output.mkdir(parents=True, exist_ok=True)
    async with session.gateway() as gateway, session.gateway(admin=True) as admin:
        consented = await note_consent(session.output, gateway, policy or [""], tasks)
        if not (consented or is_trained(run)):
            raise UsageError(
                "no policy to play under consents to training: nothing could be learnt",
                "name one with --policy that has `training_consent: true`",
            )
        offer = Offer(
            await known_tools(gateway, policy or []),
            tools,
            price_spread,
            tool_subsets,
            tuple(always or ()),
            tuple(policy or ()),
            withhold,
        )
        pace = Pace(groups, size, at_once, ahead, curriculum)
        rounds = Rounds(gateway, run, offer, limits, pace, session.output)
        if not is_trained(run):
            await rounds.play(tasks, make_trainer(config, run, skip_lost))
        version = await rounds.candidate()
        if not version:
            raise UserError(
                f"{store} holds no version of the run, which has taken all its steps",
                "name the store that it published to, or another `output` to train anew",
            )
        is_promoted = Aliases(store).current(Alias.PROMOTED) == version
        if is_promoted or not held:
            words = f"{version} is promoted" if is_promoted else version
            session.output.result({"version": version, "promoted": is_promoted}, words)
            return
        decision = latest_decision(version, store)
        if decision is None:
            played = await rounds.measured(held, version), await rounds.measured(held, "")
            decision = decided(version, store, played, GateRules(objective=objective))
        elif decision.rules.objective is not objective:
            earlier = decision.rules.objective
            raise UsageError(
                f"{version} was measured for {earlier} already",
                f"give --objective {earlier}, or train a new version",
            )
        else:
            session.output.note(f"{version} was measured already; this is what was decided")
        session.output.result(decision.model_dump(mode="json"), decision_table(decision))
        if decision.verdict is not Verdict.PROMOTE:
            raise typer.Exit(1)
        if promote:
            path = f"/v1/model-versions/{segment(version)}/promote"
            await admin.post(path, {}, pb.PromoteModelVersionResponse)
            session.output.note(f"{version} is promoted")


def _check_apart(tasks: list[Task], held: list[Task]) -> None:
    if not any(task.split is Split.TRAIN for task in tasks):
        raise UsageError("the trainer rejects held-out tasks", "`podium train tasks --split train`")
    known = {task.id for task in tasks}
    if both := [task.id for task in held if task.id in known]:
        raise UsageError(f"task {both[0]} is learnt from and measured on", "keep them apart")
