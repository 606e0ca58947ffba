"""The commands that evaluate a candidate on the tenant's live traffic: `ab` and `shadow`."""

from typing import Annotated

import typer
import uuid_utils
from rich.console import Group
from rich.text import Text

from podium.common.v1 import money_pb2
from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium.ledger.v1 import budget_service_pb2
from podium.registry.v1 import tool_registry_service_pb2
from podium_cli.command import Session, command
from podium_cli.evaluations.runs import RunId, app, progress_table, state_of
from podium_cli.inputs import Judges, OwnFamily, parse_money
from podium_evaluation.runs.judges import Judge, check_family
from podium_evaluation.runs.names import budget_name, path_of
from podium_evaluation.runs.preparing import agent_budget
from podium_kit.client.gateway import Gateway, segment

LIVE = "/v1/live-evaluations"
OWN, CANDIDATE = "current", "candidate"

ab = typer.Typer(
    name="ab",
    help="Give a candidate a share of live traffic; a test that is valid at every look ends it.",
    no_args_is_help=True,
)
shadow = typer.Typer(
    name="shadow",
    help="Replay a share of live traffic by a candidate, without effects, within a budget.",
    no_args_is_help=True,
)
app.add_typer(ab)
app.add_typer(shadow)

Model = Annotated[str, typer.Option(help="Orchestrator of the candidate, like policy-demo-v12.")]
Policy = Annotated[str, typer.Option(help="Policy of the candidate.")]
Traffic = Annotated[
    str, typer.Option("--traffic", help="Episodes that name this policy; by default, none.")
]


@command(ab, "start")
async def start_ab(
    session: Session,
    *,
    share: Annotated[
        float, typer.Option(help="Of the traffic that the candidate gets: 0.05 is 5 %.")
    ],
    model: Model = "",
    policy: Policy = "",
    traffic: Traffic = "",
) -> None:
    """Begin an A/B test; it ends by itself once one arm is surely better.

    Episodes that name no model are assigned by their ids, as many to be compared with as the
    candidate gets. Their score is that of their check, or else the first that feedback gives.
    """
    live = ab_test(traffic, share)
    async with session.gateway() as gateway:
        started = await start_live(gateway, str(uuid_utils.uuid7()), live, model, policy)
    session.output.result(started, started.id)


@command(shadow, "start")
async def start_shadow(
    session: Session,
    *,
    share: Annotated[float, typer.Option(help="Of the traffic that is replayed: 0.05 is 5 %.")],
    budget: Annotated[str, typer.Option(help="Most that all shadows may cost, like 2.50.")],
    model: Model = "",
    policy: Policy = "",
    traffic: Traffic = "",
    judge: Judges = None,
    own_family: OwnFamily = False,
) -> None:
    """Begin shadows: users get nothing of them, and no tool with effects is called.

    Once an episode has answered, the candidate replays it. It ends with its budget, or by `stop`.
    """
    evaluation_id = str(uuid_utils.uuid7())
    live = pb.LiveTraffic(
        use=pb.LIVE_USE_SHADOW,
        policy=traffic,
        share=share,
        judges=judge or (),
        allow_own_family=own_family,
    )
    limit = parse_money(budget)
    async with session.gateway() as gateway:
        listed = await gateway.all("/v1/tools", tool_registry_service_pb2.ListToolsResponse)
        tools = {tool.spec.name: tool.spec for tool in listed.tools}
        for asked in map(Judge.parse, live.judges):
            own = asked.models(tools)
            if not own_family:
                check_family(asked, own, {model} - {""})
        money = money_pb2.Money(amount=limit.amount_string(), currency_code=limit.currency_code)
        await gateway.post(
            "/v1/budgets",
            agent_budget(budget_name(evaluation_id), money),
            budget_service_pb2.CreateBudgetResponse,
        )
        started = await start_live(gateway, evaluation_id, live, model, policy)
    session.output.result(started, started.id)


def ab_test(traffic: str, share: float) -> pb.LiveTraffic:
    return pb.LiveTraffic(use=pb.LIVE_USE_AB, policy=traffic, share=share)


async def start_live(
    gateway: Gateway, evaluation_id: str, live: pb.LiveTraffic, model: str, policy: str = ""
) -> pb.Evaluation:
    """Begins a live evaluation; the same id and content again returns the same."""
    shadows = live.use == pb.LIVE_USE_SHADOW
    wanted = pb.Evaluation(
        id=evaluation_id,
        arms=[
            pb.EvaluationArm(name=OWN),
            pb.EvaluationArm(name=CANDIDATE, model=model, policy=policy),
        ],
        budget_id=budget_name(evaluation_id) if shadows else "",
        traffic=live,
        suite="live",
    )
    request = pb.StartLiveEvaluationRequest(evaluation=wanted)
    return (await gateway.post(LIVE, request, pb.StartLiveEvaluationResponse)).evaluation


async def show_live(session: Session, run: RunId) -> None:
    """Show both arms, and what is known of their difference at this look."""
    async with session.gateway() as gateway:
        found = await gateway.get(path_of(run), pb.GetEvaluationResponse)
    compared = found.comparison
    words = (
        f"difference {compared.difference:+.3f}, from {compared.lower:+.3f} to"
        f" {compared.upper:+.3f} with 95 % certainty over all looks, p {compared.p_value:.3g};"
        f" scored: {compared.baseline_count} and {compared.candidate_count}"
    )
    view = Group(progress_table(found), Text(words), Text(state_of(found.evaluation)))
    session.output.result(found, view)


async def stop_live(
    session: Session,
    run: RunId,
    *,
    reason: Annotated[str, typer.Option(help="Why, for the record.")] = "",
) -> None:
    """End it: from the next start on, all episodes are as their callers ask."""
    async with session.gateway() as gateway:
        body = {"reason": reason}
        path = f"{LIVE}/{segment(run)}/stop"
        stopped = (await gateway.post(path, body, pb.StopLiveEvaluationResponse)).evaluation
    session.output.result(stopped, f"{run} is {state_of(stopped)}")


for group in (ab, shadow):
    command(group, "show")(show_live)
    command(group, "stop")(stop_live)
