from pathlib import Path
from typing import Annotated

import typer
import yaml
from rich.markup import escape

from podium_cli.command import Session, command
from podium_cli.formats import counted
from podium_cli.listing import listing
from podium_cli.output import writing
from podium_cli.train.choosing import Seed, SplitName, SplitOption
from podium_cli.train.train import app
from podium_training.imitation.preference_pairs import draw_pairs
from podium_training.tasks.task import Split

COUNT_MAX = 1000


@command(app, "preferences")
async def preferences(
    session: Session,
    *,
    count: Annotated[int, typer.Option(min=1, max=COUNT_MAX, help="How many policies.")] = 48,
    split: SplitOption = SplitName.TRAIN,
    seed: Seed = 0,
    tool: Annotated[
        list[str] | None,
        typer.Option(help="Some prefer this tool, or this model, like ask_llm/small; repeatable."),
    ] = None,
    prefix: Annotated[
        str, typer.Option(help="Names are PREFIX-0, PREFIX-1 and so on.")
    ] = "prefers",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="YAML file to write.")
    ] = None,
) -> None:
    """Make policies that differ in weights, most with an instruction that says the same.

    `podium policies apply -f FILE` creates them; `podium train rollout --policy NAME`, repeated,
    gives each group one. Held-out weights and instructions are in no training policy.
    """
    pairs = draw_pairs(count, Split(split.value), seed, tool or [])
    policies = [pair.policy(f"{prefix}-{number}") for number, pair in enumerate(pairs)]
    if output is not None:
        with writing(output):
            text = "---\n".join(yaml.safe_dump(each, sort_keys=False) for each in policies)
            output.write_text(text, encoding="utf-8")
        session.output.note(escape(f"{counted(len(policies), 'policy', 'policies')} in {output}"))
        return
    rows = [
        (
            policy["name"],
            pair.kind,
            f"{pair.outcome:g}/{pair.compute:g}/{pair.latency:g}",
            pair.instruction,
        )
        for policy, pair in zip(policies, pairs, strict=True)
    ]
    headings = ("policy", "kind", "outcome/cost/latency", "instruction…")
    session.output.result({"policies": policies}, listing(headings, rows))
