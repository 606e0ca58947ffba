"""The commands that compare judges with people's labels."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
import uuid_utils
from rich.console import Group
from rich.markup import escape
from rich.text import Text

from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium.registry.v1 import tool_registry_service_pb2
from podium_cli.command import Session, command
from podium_cli.evaluations.runs import app, paid
from podium_cli.formats import counted, format_time
from podium_cli.inputs import parse_money
from podium_cli.listing import Listing, listing
from podium_evaluation.results.calibrations import label_agreement, pair_agreement
from podium_evaluation.runs.calibrating import calibrate, read_labels
from podium_evaluation.runs.judges import Judge
from podium_training.gate import Interval

CALIBRATIONS = "/v1/judge-calibrations"

judges_app = typer.Typer(
    name="judges",
    help="Measure judges against answers that people labelled right or wrong.",
    no_args_is_help=True,
)
app.add_typer(judges_app)


@command(judges_app, "calibrate")
async def calibrate_judges(
    session: Session,
    file: Annotated[Path, typer.Argument(help="JSON lines: task, answer, reference, label.")],
    *,
    judge: Annotated[
        list[str], typer.Option("--judge", help="Tool of kind llm, or TOOL/ALIAS; repeatable.")
    ],
    budget: Annotated[str, typer.Option(help="Most that all of it may cost, like 2.50.")],
    at_once: Annotated[int, typer.Option(min=1, max=256, help="Questions in flight.")] = 4,
) -> None:
    """Ask judges about answers that people labelled, and show how far they agree with the labels.

    A line is {"task": "…", "answer": "…", "label": "right"}, or wrong, with a "reference" where
    there is one. The counts are stored, and reports of runs name them; tasks and answers are not.
    """
    labelled = read_labels(file)
    limit = parse_money(budget)
    judges = list(map(Judge.parse, judge))
    total, done = len(labelled.answers) * len(judges), 0

    def progress() -> None:
        nonlocal done
        done += 1
        session.output.note(f"{done} of {counted(total, 'verdict')}")

    async with session.gateway() as gateway:
        listed = await gateway.all("/v1/tools", tool_registry_service_pb2.ListToolsResponse)
        tools = {tool.spec.name: tool for tool in listed.tools}
        found = await calibrate(
            gateway,
            labelled,
            judges,
            tools,
            id=str(uuid_utils.uuid7()),
            limit=limit,
            at_once=at_once,
            progress=progress,
        )
    session.output.result(_values(found), _view(found))


@command(judges_app, "list")
async def list_calibrations(session: Session) -> None:
    """List the calibrations of judges, newest first."""
    async with session.gateway() as gateway:
        found = await gateway.all(CALIBRATIONS, pb.ListJudgeCalibrationsResponse, page_size=500)
    rows = [
        (each.name, format_time(each.create_time), *_row(judge))
        for each in found.calibrations
        for judge in each.judges
    ]
    values = {"calibrations": list(map(_values, found.calibrations))}
    session.output.result(values, listing(("set", "time", *COLUMNS), rows))


COLUMNS = ("judge", "model", "judged#", "unjudged#", "accuracy#", "kappa#", "passed wrong#",
           "failed right#", "cost#")  # fmt: skip


def _view(found: pb.JudgeCalibration) -> Group:
    parts: list[Listing | Text] = [listing(COLUMNS, map(_row, found.judges))]
    if found.pairs:
        columns = ("judge", "and", "answers#", "equal#", "kappa#")
        parts.append(listing(columns, map(_pair_row, found.pairs)))
    if len(found.judges) > 2:
        kappa = f"{found.all_agree_kappa:.2f}" if found.HasField("all_agree_kappa") else "undefined"
        parts.append(
            Text(f"Fleiss' kappa of all, on {counted(found.all_judged, 'answer')}: {kappa}")
        )
    labelled = f"{found.labelled_right} labelled right, {found.labelled_wrong} labelled wrong"
    parts.append(Text(escape(f"{labelled}, {found.with_reference} with a reference")))
    return Group(*parts)


def _row(judge: pb.CalibratedJudge) -> tuple[str, ...]:
    found = label_agreement(judge)
    shares = (found.accuracy, found.kappa, found.false_positives, found.false_negatives)
    counts = (str(found.judged), str(found.unjudged))
    return (judge.judge, judge.model, *counts, *map(_shown, shares), paid(judge.cost))


def _pair_row(pair: pb.CalibratedPair) -> tuple[str, ...]:
    both, equal, kappa = pair_agreement(pair)
    return pair.first, pair.second, str(both), str(equal), _shown(kappa)


def _shown(found: Interval | None) -> str:
    return f"{found.mean:.2f} [{found.lower:.2f}, {found.upper:.2f}]" if found else "undefined"


def _values(found: pb.JudgeCalibration) -> dict[str, object]:
    pairs = []
    for pair in found.pairs:
        both, equal, kappa = pair_agreement(pair)
        named = {"first": pair.first, "second": pair.second, "answers": both, "equal": equal}
        pairs.append({**named, "kappa": kappa and vars(kappa)})
    return {
        "id": found.id,
        "name": found.name,
        "digest": found.digest,
        "labelled_right": found.labelled_right,
        "labelled_wrong": found.labelled_wrong,
        "with_reference": found.with_reference,
        "judges": [
            {
                "judge": each.judge,
                "model": each.model,
                "tool_version": each.tool_version,
                "cost": each.cost.amount or None,
                **asdict(label_agreement(each)),
            }
            for each in found.judges
        ],
        "pairs": pairs,
        "all_agree_kappa": found.all_agree_kappa if found.HasField("all_agree_kappa") else None,
        "all_judged": found.all_judged,
    }
