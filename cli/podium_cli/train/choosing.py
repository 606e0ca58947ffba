from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from podium.registry.v1 import policy_pb2, policy_service_pb2
from podium_cli.output import Output
from podium_kit.client.errors import UsageError
from podium_kit.client.gateway import Gateway, segment
from podium_training.tasks.loaders.errors import UnreadableSource
from podium_training.tasks.task import Split, Task


async def note_consent(
    output: Output, gateway: Gateway, policies: Sequence[str], tasks: Sequence[Task]
) -> bool:
    """Prints a note for each policy without training consent that training tasks run under.

    False when that is all of them. Raises Rejected, Unreachable.
    """
    if all(task.split is not Split.TRAIN for task in tasks):
        return True
    used = [await _policy_of(gateway, name) for name in policies]
    without = [policy for policy in used if not policy.spec.training_consent]
    for policy in without:
        output.note(f"[bold yellow]note:[/] {_without_consent(policy)}")
    return len(without) < len(used)


async def _policy_of(gateway: Gateway, name: str) -> policy_pb2.Policy:
    if name:
        return await policy_named(gateway, name)
    listed = await gateway.all("/v1/policies", policy_service_pb2.ListPoliciesResponse)
    for policy in listed.policies:
        if policy.active:
            return policy
    # An earlier version of its policy is active; the list has the newest alone.
    path = "/v1/policy-activations"
    begun = await gateway.all(path, policy_service_pb2.ListActivationsResponse)
    now = datetime.now(UTC)
    since = [each for each in begun.activations if each.effective_time.ToDatetime(UTC) <= now]
    return await policy_named(gateway, since[0].name, since[0].version)


async def policy_named(gateway: Gateway, name: str, version: int = 0) -> policy_pb2.Policy:
    path = f"/v1/policies/{segment(name)}"
    reply = await gateway.get(path, policy_service_pb2.GetPolicyResponse, version=version or None)
    return reply.policy


def _without_consent(policy: policy_pb2.Policy) -> str:
    return (
        f"policy {policy.spec.name} v{policy.version} does not consent to training: no run will"
        " learn from these episodes. To learn from them, add `trainingConsent: true` to a policy,"
        " `podium policies apply` it, and name it with --policy"
    )


class SplitName(StrEnum):
    """A split of tasks; the splits share no phrasing and no entity."""

    TRAIN = "train"
    HELD_OUT = "held-out"


class Source(StrEnum):
    FAMILIES = "families"
    REASONING_GYM = "reasoning-gym"
    BFCL = "bfcl"
    PAPER = "paper"


Count = Annotated[int, typer.Option(min=1, help="How many tasks.")]
SplitOption = Annotated[SplitName, typer.Option(help="Tasks to learn from, or to measure on.")]
Seed = Annotated[int, typer.Option(help="The same seed makes the same tasks.")]
Family = Annotated[
    list[str] | None, typer.Option(help="Like arithmetic or sql; repeatable; all by default.")
]

ToolsMax = Annotated[
    int,
    typer.Option(min=0, help="Most tools offered per group; 0: those that fit its task best."),
]
Curriculum = Annotated[
    bool, typer.Option("--curriculum", help="Play oftener what is solved neither always nor never.")
]
TurnLimit = Annotated[int, typer.Option(min=1, help="Most turns per episode.")]
TimeLimit = Annotated[str, typer.Option(help="Longest episode, like 90s.")]
PriceSpread = Annotated[
    float,
    typer.Option(min=1, help="Scale each group's prices by up to this factor, up or down."),
]
ToolSubsets = Annotated[
    int,
    typer.Option(min=0, help="Choices of tools that groups share; 0: each group has its own."),
]
Always = Annotated[
    list[str] | None,
    typer.Option(help="Offer this tool to every group besides, like ask_llm; repeatable."),
]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy", help="Policy; the tenant's by default. Repeated, each group has one of them."
    ),
]
PoliciesPerTask = Annotated[
    int, typer.Option(min=1, help="Play each task under so many of the policies, a group each.")
]
Withhold = Annotated[
    float,
    typer.Option(min=0, max=1, help="Share of groups that lack the tools their task needs."),
]

Temperature = Annotated[
    float,
    typer.Option(min=0.1, max=2.0, help="Of sampling; the lower, the nearer to what users get."),
]
MaxTokens = Annotated[int, typer.Option(min=16, max=32_768, help="Of the completion of a turn.")]


def make_tasks(count: int, split: SplitName, seed: int, family: list[str] | None) -> list[Task]:
    # The families use the bundled tools, which are slow to import and needed only here.
    from podium_training.tasks.taskset import FAMILIES, TooFewTasks, generate  # noqa: PLC0415

    names = family or list(FAMILIES)
    if unknown := [name for name in names if name not in FAMILIES]:
        raise UsageError(f"there is no family {unknown[0]!r}", f"use {', '.join(FAMILIES)}")
    try:
        return generate(count, Split(split), seed, names)
    except TooFewTasks as error:
        raise UsageError(str(error), "ask for fewer, or for more families") from error


def load_tasks(
    source: Source,
    count: int,
    split: SplitName,
    seed: int,
    family: list[str] | None,
    *,
    file: Path | None = None,
    judges: Sequence[str] = (),
) -> list[Task]:
    # Each source is imported by those alone who ask for it.
    from podium_training.tasks.loaders import bfcl, paper, reasoning_gym  # noqa: PLC0415

    if (source is Source.PAPER) != (file is not None):
        raise UsageError("--file is for --from paper, which needs it", "name a file of JSON lines")
    wanted, families = Split(split), family or []
    try:
        match source:
            case Source.FAMILIES:
                return make_tasks(count, split, seed, family)
            case Source.REASONING_GYM:
                return reasoning_gym.load(count, wanted, seed, families)
            case Source.BFCL:
                return bfcl.load(count, wanted, families)
            case Source.PAPER:
                return paper.load(file or Path(), count, wanted, families, judges)
    except UnreadableSource as error:
        raise UsageError(error.cause, error.fix) from error
