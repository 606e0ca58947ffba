from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from podium.registry.v1 import policy_pb2, policy_service_pb2
from podium_cli.command import Session, command
from podium_cli.completion import policy_names
from podium_cli.formats import format_money, format_seconds, with_unpriced
from podium_cli.inputs import Since, parse_start
from podium_cli.listing import listing
from podium_cli.policies.policies import app
from podium_kit.client.errors import UsageError
from podium_kit.wire import duration_from_proto, optional_money_from_proto
from podium_operations.documents import read_only_message

Limit = Annotated[int, typer.Option(min=1, max=2000, help="Most episodes, the newest.")]
REPORT_COLUMNS = (
    "policy",
    "version#",
    "scored#",
    "solved#",
    "mean score#",
    "total#",
    "cost#",
    "time#",
    "left out",
)


@command(app, "try")
async def try_policy(
    session: Session,
    name: Annotated[
        str, typer.Argument(help="Policy; leave out with --file.", autocompletion=policy_names)
    ] = "",
    *,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Try the policy of this file instead.")
    ] = None,
    since: Since = "7d",
    limit: Limit = 200,
) -> None:
    """Say what a policy would have changed in past episodes: calls rejected, money not spent."""
    if bool(name) == (file is not None):
        raise UsageError("there is nothing to try, or two policies", "give a name or --file")
    request = policy_service_pb2.DryRunPolicyRequest(policy=name, past=_past(since, limit))
    if file is not None:
        request.spec.CopyFrom(read_only_message(file, policy_pb2.PolicySpec))
    async with session.gateway() as gateway:
        reply = await gateway.post(
            "/v1/policies/dry-run", request, policy_service_pb2.DryRunPolicyResponse
        )
    for notice in reply.notices:
        session.output.warn(notice)
    table = listing(
        ("rejected", "calls#", "episodes#", "cost#", "why"),
        [_rejected_row(each) for each in reply.rejected],
    )
    session.output.result(reply, Group(_summary(reply), table))


@command(app, "report")
async def report(
    session: Session,
    name: Annotated[
        str, typer.Argument(help="Policy; every one when left out.", autocompletion=policy_names)
    ] = "",
    *,
    baseline: Annotated[
        str, typer.Option(help="Policy whose episodes on the same tasks are the baseline.")
    ] = "balanced",
    answered_is_solved: Annotated[
        bool,
        typer.Option("--answered-is-solved", help="Count an answer without a check as solved."),
    ] = False,
    since: Since = "7d",
    limit: Limit = 200,
) -> None:
    """Score how well episodes followed their policy's preferences (paper, appendix L)."""
    past = _past(since, limit)
    past.policy = name
    solved = (
        policy_service_pb2.SOLVED_RULE_ANSWERED
        if answered_is_solved
        else policy_service_pb2.SOLVED_RULE_JUDGED
    )
    request = policy_service_pb2.ReportAdherenceRequest(
        past=past, baseline_policy=baseline, solved_rule=solved
    )
    async with session.gateway() as gateway:
        reply = await gateway.post(
            "/v1/policies/report", request, policy_service_pb2.ReportAdherenceResponse
        )
    rows = [_policy_row(each) for each in reply.policies]
    session.output.result(reply, listing(REPORT_COLUMNS, rows, ("left out", "version#")))


def _past(since: str, limit: int) -> policy_service_pb2.PastEpisodes:
    past = policy_service_pb2.PastEpisodes(limit=limit)
    if start := parse_start(since):
        past.start_time.FromJsonString(start)
    return past


def _summary(reply: policy_service_pb2.DryRunPolicyResponse) -> Text:
    spent = format_money(optional_money_from_proto(reply.cost))
    saved = format_money(optional_money_from_proto(reply.rejected_cost))
    return Text(
        f"{reply.rejected_call_count} of {reply.call_count} calls would have been rejected, in"
        f" {reply.affected_episode_count} of {reply.episode_count} episodes;"
        f" {reply.approval_call_count} would have needed approval.\n"
        f"The calls cost {spent}, the rejected ones {saved}."
    )


def _rejected_row(rejected: policy_service_pb2.RejectedCalls) -> tuple[str, ...]:
    return (
        f"{rejected.tool_name} {rejected.model_alias}".strip(),
        str(rejected.call_count),
        str(rejected.episode_count),
        with_unpriced(rejected.cost, rejected.unpriced_call_count),
        rejected.reason,
    )


def _policy_row(policy: policy_service_pb2.PolicyAdherence) -> tuple[str, ...]:
    left_out = {
        "without baseline": policy.without_baseline_count,
        "not judged": policy.without_outcome_count,
        "of unknown cost": policy.without_cost_count,
    }
    return (
        policy.policy_name,
        str(policy.policy_version),
        str(policy.scored_count),
        str(policy.solved_count),
        f"{policy.mean_score:.3g}",
        f"{policy.total_score:.4g}",
        format_money(optional_money_from_proto(policy.mean_cost)),
        format_seconds(duration_from_proto(policy.mean_latency)),
        ", ".join(f"{count} {why}" for why, count in left_out.items() if count),
    )
