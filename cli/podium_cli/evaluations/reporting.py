"""The commands that read what became of runs: report, compare, export."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium_cli.command import Session, command
from podium_cli.evaluations.figures import read_failures, report_of, without_content
from podium_cli.evaluations.runs import RunId, app
from podium_cli.listing import listing
from podium_cli.output import Output, writing
from podium_cli.report_pages import write_report_page
from podium_evaluation.results.comparison import Compared, compare, parse_gate
from podium_evaluation.results.inspect_logs import write_logs
from podium_evaluation.results.trials import Results, read_results
from podium_evaluation.runs.names import path_of
from podium_kit.client.errors import UserError
from podium_kit.client.gateway import Gateway
from podium_kit.client.rejections import Rejected
from podium_kit.wire import json_values


class Format(StrEnum):
    JSONL = "jsonl"
    INSPECT = "inspect"


Side = Annotated[str, typer.Argument(help="Id of a run, or RUN/ARM.", show_default=False)]


@command(app, "report")
async def report(
    session: Session,
    run: RunId,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML page to write.")] = Path(
        "evaluation.html"
    ),
) -> None:
    """Write one page: accuracy with intervals, costs, pairs, failures, settings.

    The console shows the same figures from then on, without answers and results of calls.
    """
    async with session.gateway() as gateway:
        await write_report(session.output, gateway, run, output)
    session.output.result({"page": str(output)}, str(output))


async def write_report(output: Output, gateway: Gateway, run: str, path: Path) -> None:
    results = await read_results(gateway, run)
    found = report_of(results, await read_failures(gateway, results), gateway.url)
    with writing(path):
        write_report_page(path, found)
    output.note(f"report: {path}")
    body = {"report_json": json.dumps(without_content(found), allow_nan=False)}
    try:
        await gateway.put(f"{path_of(run)}/report", body, pb.RecordEvaluationReportResponse)
    except Rejected as error:
        # Those who may only read the run have their page.
        output.warn(f"the console does not show it: {error}")


@command(app, "export")
async def export(
    session: Session,
    run: RunId,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="JSONL file, or folder of logs, to write.")
    ],
    format: Annotated[
        Format, typer.Option(help="Lines of JSON, or logs of inspect_ai, one for each arm.")
    ] = Format.JSONL,
) -> None:
    """Write a line of JSON for each trial, after one of the run; or logs that inspect_ai reads."""
    async with session.gateway() as gateway:
        results = await read_results(gateway, run)
    with writing(output):
        if format is Format.INSPECT:
            write_logs(output, results)
        else:
            output.write_text(_lines(results), encoding="utf-8")
    trials = len(results.trials)
    session.output.result({"file": str(output), "trials": trials}, str(output))


def _lines(results: Results) -> str:
    evaluation = results.evaluation
    head = {
        "run": evaluation.id,
        "suite": evaluation.suite,
        "suite_digest": evaluation.suite_digest,
        "comparability_key": dict(evaluation.comparability_key),
        "arms": results.arms,
        "repeats": evaluation.repeats,
    }
    verdicts: dict[str, list[object]] = {}
    for verdict in results.verdicts:
        verdicts.setdefault(verdict.episode_id, []).append(json_values(verdict))
    lines = [
        head,
        *(
            {**trial.values(), "verdicts": verdicts.get(trial.episode_id, [])}
            for trial in results.trials
        ),
    ]
    return "".join(f"{json.dumps(each, ensure_ascii=False)}\n" for each in lines)


@command(app, "compare")
async def compare_runs(
    session: Session,
    baseline: Side,
    candidate: Side,
    *,
    gate: Annotated[
        str, typer.Option(help="Like 'accuracy >= -1pp, cost <= 0.8x, latency <= 1.2x'.")
    ] = "",
) -> None:
    """Compare the second run with the first, item by item; exit status 1 where the gate is not met.

    A condition holds when it is certain at 95 %, one-sided. Runs of other suites, checks or limits
    are an error that names what differs.
    """
    conditions = parse_gate(gate)
    (first, ours), (second, theirs) = _side(baseline), _side(candidate)
    async with session.gateway() as gateway:
        left = await read_results(gateway, first)
        right = left if first == second else await read_results(gateway, second)
    if bool(ours) != bool(theirs):
        ours, theirs = ours or left.arms[0], theirs or right.arms[0]
    compared = compare(left, right, [(ours, theirs)] if ours else [], conditions)
    rows = [_row(each) for each in compared]
    columns = ("arm", "against", "items#", "accuracy#", "p#", "cost#", "latency#")
    faults = [f"{each.pair.second}: {fault}" for each in compared for fault in each.faults]
    view = Group(listing(columns, rows), *(Text(fault) for fault in faults))
    session.output.result({"pairs": [_values(each) for each in compared]}, view)
    if faults:
        raise UserError("the gate is not met", "see the conditions above")


def _side(text: str) -> tuple[str, str]:
    run, _, arm = text.partition("/")
    return run, arm


def _row(compared: Compared) -> tuple[str, ...]:
    pair = compared.pair
    found = pair.accuracy
    return (
        pair.second,
        pair.first,
        str(pair.items),
        f"{found.mean * 100:+.1f}pp [{found.lower * 100:+.1f}, {found.upper * 100:+.1f}]",
        f"{pair.adjusted:.3g}",
        f"{pair.cost_ratio.value:.2f}x" if pair.cost_ratio else "unknown",
        f"{pair.latency_ratio.value:.2f}x" if pair.latency_ratio else "unknown",
    )


def _values(compared: Compared) -> dict[str, object]:
    pair = compared.pair
    return {
        "arm": pair.second,
        "against": pair.first,
        "items": pair.items,
        "accuracy": vars(pair.accuracy),
        "p_value": pair.p_value,
        "adjusted_p_value": pair.adjusted,
        "cost_ratio": pair.cost_ratio and vars(pair.cost_ratio),
        "latency_ratio": pair.latency_ratio and vars(pair.latency_ratio),
        "faults": list(compared.faults),
    }
