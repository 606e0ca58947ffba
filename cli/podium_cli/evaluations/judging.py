"""The command that asks another judge about the trials of a run."""

from typing import Annotated

import typer
from rich.console import Group
from rich.markup import escape
from rich.text import Text

from podium.registry.v1 import tool_registry_service_pb2
from podium_cli.command import Session, command
from podium_cli.evaluations.runs import RunId, app
from podium_cli.formats import counted
from podium_cli.inputs import OwnFamily
from podium_cli.listing import listing
from podium_evaluation.results.agreement import JudgeAgreement, agreements, verdicts_by_judge
from podium_evaluation.results.trials import read_results
from podium_evaluation.runs.judges import Judge
from podium_evaluation.runs.judging import judge_trials, plan_judging


@command(app, "judge")
async def judge_run(
    session: Session,
    run: RunId,
    *,
    judge: Annotated[
        str, typer.Option("--with", help="Tool of kind llm, or TOOL/ALIAS of one of its models.")
    ],
    at_once: Annotated[int, typer.Option(min=1, max=256, help="Questions in flight.")] = 4,
    own_family: OwnFamily = False,
) -> None:
    """Judge a run's stored trials by another judge and show how far the judges agree.

    No trial is played again. The calls are paid from the run's budget, each once: the same command
    continues where it was interrupted, and asks again where a call failed.
    """
    asked = Judge.parse(judge)
    async with session.gateway() as gateway:
        listed = await gateway.all("/v1/tools", tool_registry_service_pb2.ListToolsResponse)
        tools = {tool.spec.name: tool.spec for tool in listed.tools}
        plan = await plan_judging(gateway, run, asked, tools, own_family=own_family)
        session.output.note(
            escape(
                f"{counted(len(plan.trials), 'trial')} to judge, {plan.before} judged before,"
                f" {plan.left_out} without an answer or a reference"
            )
        )
        done = 0

        def progress() -> None:
            nonlocal done
            done += 1
            session.output.note(f"{done} of {counted(len(plan.trials), 'trial')}")

        await judge_trials(gateway, run, asked, plan.trials, at_once=at_once, progress=progress)
        results = await read_results(gateway, run)
    found = agreements(verdicts_by_judge(results.trials, results.verdicts))
    given = [each for each in results.verdicts if each.judge == str(asked)]
    unjudged = sum(not each.HasField("score") for each in given)
    columns = ("judge", "and", "trials#", "equal#", "kappa#")
    values = {
        "judged": len(given) - unjudged,
        "unjudged": unjudged,
        "left_out": plan.left_out,
        "agreements": [{**vars(each), "kappa": each.kappa and vars(each.kappa)} for each in found],
    }
    words = Text(f"{len(given) - unjudged} judged, {unjudged} without a verdict")
    session.output.result(values, Group(listing(columns, map(_row, found)), words))


def _row(found: JudgeAgreement) -> tuple[str, ...]:
    kappa = found.kappa
    shown = f"{kappa.mean:.2f} [{kappa.lower:.2f}, {kappa.upper:.2f}]" if kappa else "undefined"
    return found.first, found.second, str(found.trials), str(found.equal), shown
