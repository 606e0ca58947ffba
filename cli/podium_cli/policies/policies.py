from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.syntax import Syntax
from rich.text import Text

from podium.registry.v1 import policy_pb2, policy_service_pb2
from podium_cli.command import Session, command
from podium_cli.completion import policy_names
from podium_cli.formats import format_time
from podium_cli.listing import listing
from podium_cli.tools.applying import require_names_of_their_own
from podium_cli.tools.tools import DryRun
from podium_kit.client.gateway import Gateway, segment
from podium_kit.client.rejections import Rejected
from podium_kit.text import one_line
from podium_kit.wire import json_values
from podium_operations.documents import InvalidDocument, as_yaml, read_messages, read_only_message

INSTRUCTION_CHARACTERS = 60

app = typer.Typer(
    name="policies",
    help="List, show, apply, activate, schedule, explain, bind, delete, try, report.",
    no_args_is_help=True,
)

Name = Annotated[
    str, typer.Argument(help="Policy name.", show_default=False, autocompletion=policy_names)
]
Version = Annotated[int, typer.Option(min=0, help="Version; 0 means the newest.")]


@command(app, "list")
async def list_policies(session: Session) -> None:
    """List policies, presets first; * marks the active one."""
    async with session.gateway() as gateway:
        found = await gateway.all("/v1/policies", policy_service_pb2.ListPoliciesResponse)
    columns = ("policy", "version#", "outcome#", "compute#", "latency#", "created", "instruction")
    rows = [_row(each) for each in found.policies]
    session.output.result(found, listing(columns, rows, ("created", "instruction")))


@command(app, "show")
async def show(session: Session, name: Name, version: Version = 0) -> None:
    """Show a policy as YAML, ready to be changed and applied."""
    async with session.gateway() as gateway:
        reply = await gateway.get(
            f"/v1/policies/{segment(name)}",
            policy_service_pb2.GetPolicyResponse,
            version=version or None,
        )
    text = as_yaml(reply.policy.spec)
    session.output.result(reply, Syntax(text, "yaml", background_color="default"))


@command(app, "apply")
async def apply(
    session: Session,
    file: Annotated[Path, typer.Option("--file", "-f", help="File or folder of YAML or JSON.")],
    dry_run: DryRun = False,
) -> None:
    """Create policies, or new versions of them, from files."""
    documents = read_messages(file, policy_pb2.PolicySpec)
    names = [spec.name for _, spec in documents]
    require_names_of_their_own("policies", names, [path for path, _ in documents])
    replies = []
    async with session.gateway() as gateway:
        # All are checked before the first is stored.
        for validate_only in (True,) if dry_run else (True, False):
            replies = [
                await _create(gateway, path, spec, validate_only) for path, spec in documents
            ]
    for (path, _), each in zip(documents, replies, strict=True):
        for notice in each.notices:
            session.output.warn(f"{path}: {notice}")
    verb = "would be created" if dry_run else "created"
    lines = [
        f"{each.policy.spec.name} v{each.policy.version} {verb if each.created else 'unchanged'}"
        for each in replies
    ]
    values = {"policies": [json_values(each) for each in replies], "dry_run": dry_run}
    session.output.result(values, Text("\n".join(lines)))


@command(app, "activate")
async def activate(
    session: Session,
    name: Name,
    version: Version = 0,
    since: Annotated[
        datetime | None,
        typer.Option("--from", help="From when on, in UTC; now when left out."),
    ] = None,
) -> None:
    """Make a policy the default of episodes that name none, now or from a time on."""
    request = policy_service_pb2.ActivatePolicyRequest(version=version)
    if since is not None:
        request.effective_time.FromDatetime(since.replace(tzinfo=UTC))
    async with session.gateway() as gateway:
        reply = await gateway.post(
            f"/v1/policies/{segment(name)}/activate",
            request,
            policy_service_pb2.ActivatePolicyResponse,
        )
    when = "is active" if since is None else f"will be active from {since:%Y-%m-%d %H:%M} UTC"
    session.output.result(reply, f"{reply.policy.spec.name} v{reply.policy.version} {when}")


@command(app, "schedule")
async def schedule(session: Session) -> None:
    """List when which policy became or becomes the default, newest first."""
    async with session.gateway() as gateway:
        found = await gateway.all(
            "/v1/policy-activations", policy_service_pb2.ListActivationsResponse
        )
    rows = [
        (format_time(each.effective_time), each.name, str(each.version), each.created_by)
        for each in found.activations
    ]
    session.output.result(found, listing(("from", "policy", "version#", "by"), rows))


@command(app, "explain")
async def explain(
    session: Session,
    name: Annotated[
        str,
        typer.Argument(help="Policy; the active one when left out.", autocompletion=policy_names),
    ] = "",
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Try the policy of this file instead.")
    ] = None,
) -> None:
    """Say for every tool why it is in or out."""
    request = policy_service_pb2.ExplainToolsetRequest(policy=name)
    if file is not None:
        request.spec.CopyFrom(read_only_message(file, policy_pb2.PolicySpec))
    async with session.gateway() as gateway:
        reply = await gateway.post(
            "/v1/policies/explain", request, policy_service_pb2.ExplainToolsetResponse
        )
    for notice in reply.notices:
        session.output.warn(notice)
    rows = [
        (Text("in", "green") if each.allowed else Text("out", "red"), each.name, each.reason)
        for each in reply.decisions
    ]
    session.output.result(reply, listing(("offered", "tool", "why"), rows))


@command(app, "delete")
async def delete(session: Session, name: Name, version: Version = 0) -> None:
    """Delete a policy that nothing used, or one version of it; what was used stays."""
    async with session.gateway() as gateway:
        reply = await gateway.delete(
            f"/v1/policies/{segment(name)}",
            policy_service_pb2.DeletePolicyResponse,
            version=version or None,
        )
    gone = ", ".join(f"{each.spec.name} v{each.version}" for each in reply.policies)
    session.output.result(reply, f"{gone} deleted")


async def _create(
    gateway: Gateway, path: Path, spec: policy_pb2.PolicySpec, validate_only: bool
) -> policy_service_pb2.CreatePolicyResponse:
    request = policy_service_pb2.CreatePolicyRequest(spec=spec, validate_only=validate_only)
    try:
        return await gateway.post("/v1/policies", request, policy_service_pb2.CreatePolicyResponse)
    except Rejected as rejected:
        raise InvalidDocument(path, rejected.cause, rejected.fix) from rejected


def _row(policy: policy_pb2.Policy) -> tuple[str, ...]:
    weights = policy.spec.preferences
    return (
        f"{policy.spec.name}{' *' if policy.active else ''}",
        str(policy.version),
        f"{weights.outcome:g}",
        f"{weights.compute:g}",
        f"{weights.latency:g}",
        format_time(policy.create_time),
        one_line(policy.spec.instruction, INSTRUCTION_CHARACTERS),
    )
