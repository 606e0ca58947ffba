from pathlib import Path
from typing import Annotated, Any

import typer
from google.protobuf import json_format
from rich.text import Text

from podium.ledger.v1 import audit_pb2, audit_service_pb2
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb2
from podium_cli.audit.proofs import check_proof, read_proof, read_public_key
from podium_cli.audit.verifying import progress_bar, verification_steps
from podium_cli.audit.views import explanation_view, verification_view
from podium_cli.command import Session, command
from podium_cli.formats import counted, format_time
from podium_cli.inputs import Since, month_bounds, parse_start, parse_time
from podium_cli.listing import listing
from podium_cli.output import writing
from podium_kit.client.errors import UserError
from podium_kit.wire import json_values, timestamp_to_proto

app = typer.Typer(
    name="audit",
    help=(
        "Explain, verify, prove, export, reconcile, simulate, entries, adjust, settle, close, log."
    ),
    no_args_is_help=True,
)

Entry = Annotated[
    str, typer.Argument(help="Sequence of the entry, or key of the call.", show_default=False)
]
Tenant = Annotated[str, typer.Option(help="Another tenant; needs the platform's admin key.")]


@command(app, "explain")
async def explain(session: Session, entry: Entry, tenant: Tenant = "") -> None:
    """Show why an entry has its amount, what decided it, and whether it can be trusted."""
    async with session.gateway(admin=bool(tenant)) as gateway:
        reply = await gateway.get(
            "/v1/audit/explain",
            audit_service_pb2.ExplainEntryResponse,
            entry=entry,
            tenant=tenant,
        )
    session.output.result(reply, explanation_view(reply.explanation))


@command(app, "verify")
async def verify(
    session: Session,
    first: Annotated[int, typer.Option("--from", min=1, help="First sequence.")] = 1,
    last: Annotated[int, typer.Option("--to", min=0, help="Last sequence; 0 is the newest.")] = 0,
    tenant: Tenant = "",
) -> None:
    """Recompute hashes, amounts, sums and signed roots; ends with status 1 if one is wrong."""
    rules: dict[str, str] = {}
    broken: dict[str, audit_pb2.Finding] = {}
    checked = 0
    asked = {"from_sequence": first, "to_sequence": last or None, "tenant": tenant}
    async with session.gateway(admin=bool(tenant)) as gateway:
        with progress_bar(session.output.progress, "verifying") as bar:
            async for step in verification_steps(gateway, **asked):
                rules |= dict(zip(step.rules, step.rule_texts, strict=True))
                for finding in step.findings:
                    broken.setdefault(finding.rule, finding)
                checked = step.checked_count
                bar.at(checked, step.total_count)
    wrong = list(broken.values())
    data = {"checked_count": checked, "findings": [json_values(each) for each in wrong]}
    session.output.result(data, verification_view(rules, broken))
    if wrong:
        names = ", ".join(broken)
        raise UserError(f"broken: {names}", "`podium audit explain` shows an entry")
    session.output.note(
        f"{counted(checked, 'entry', 'entries')} verified, nothing is wrong"
        if checked
        else "there is no entry yet"
    )


@command(app, "anchors")
async def anchors(session: Session) -> None:
    """List the signed daily roots."""
    async with session.gateway() as gateway:
        found = await gateway.all("/v1/audit/anchors", audit_service_pb2.ListAnchorsResponse)
    rows = [
        (each.day, each.root.hex(), str(each.tenant_count), format_time(each.create_time))
        for each in found.anchors
    ]
    session.output.result(found, listing(("day", "root", "tenants#", "signed"), rows))


@command(app, "prove")
async def prove(
    session: Session,
    entry: Entry,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")],
    key_output: Annotated[
        Path | None, typer.Option(help="Also write the public key the ledger gives.")
    ] = None,
    tenant: Tenant = "",
) -> None:
    """Write a proof that the entry is under a signed root; anybody can check it offline."""
    async with session.gateway(admin=bool(tenant)) as gateway:
        reply = await gateway.get(
            "/v1/audit/proof", audit_service_pb2.ProveEntryResponse, entry=entry, tenant=tenant
        )
    proof = reply.proof
    _write(output, json_format.MessageToJson(proof, preserving_proto_field_name=True) + "\n")
    if key_output:
        _write(key_output, proof.anchor.public_key)
    text = f"entry {proof.sequence} is under the root of {proof.anchor.day}; proof in {output}"
    session.output.result(reply, Text(text))


@command(app, "check-proof")
async def check(
    session: Session,
    file: Annotated[Path, typer.Argument(help="What `podium audit prove` wrote.")],
    *,
    public_key: Annotated[
        Path, typer.Option(help="PEM of the ledger's public key, got another way.")
    ],
) -> None:
    """Check a proof with the public key alone: no platform, no network."""
    proof = read_proof(file)
    checked = check_proof(proof, read_public_key(public_key))
    answers = {
        "the entry's content has its hash": checked.content_has_hash,
        f"the hash is under the root of {proof.anchor.day}": checked.hash_is_under_root,
        "the root is signed with the key": checked.root_is_signed,
    }
    rows = [(question, _yes(answer)) for question, answer in answers.items()]
    data = {"holds": checked.holds, "tenant": proof.tenant, "sequence": proof.sequence, **answers}
    session.output.result(data, listing(("", ""), rows))
    if not checked.holds:
        raise UserError(f"{file} proves nothing", "ask for the proof and the key again")


def _yes(answer: bool) -> Text:
    return Text("yes", style="green") if answer else Text("NO", style="red")


def _write(path: Path, text: str) -> None:
    with writing(path):
        path.write_text(text)


@command(app, "close")
async def close(
    session: Session,
    month: Annotated[str, typer.Argument(help="Last month to close, in UTC, like 2026-10.")],
) -> None:
    """Close the books of a month and of all before it; they cannot be opened again.

    What occurred in them is rejected from then on; corrections of it occur in the open period.
    The same month again changes nothing.
    """
    _, end = month_bounds(month)
    request = ledger_pb2.ClosePeriodRequest(key=f"close/{month}", end_time=timestamp_to_proto(end))
    async with session.gateway() as gateway:
        reply = await gateway.post("/v1/audit/close", request, ledger_pb2.ClosePeriodResponse)
    closed = f"the books before {end:%Y-%m-%d} (UTC) are closed by entry {reply.entry.sequence}"
    session.output.result(reply, Text(closed))


COLUMNS = ("time", "who", "with", "action", "resource", "outcome", "changed")
PAGE_SIZE_MAX = 500


@command(app, "log")
async def show(
    session: Session,
    *,
    user: Annotated[str, typer.Option(help="Only what this user did.")] = "",
    action: Annotated[str, typer.Option(help="Only this action, like RegisterTool.")] = "",
    resource: Annotated[str, typer.Option(help="Only this resource, like a tool's name.")] = "",
    since: Since = "",
    until: Annotated[str, typer.Option(help="Before this time, like 2026-02-01.")] = "",
    shared: Annotated[
        bool, typer.Option("--shared", help="What platform admins changed for every tenant.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many entries.")] = 50,
) -> None:
    """Show administrative changes of your tenant: keys, tools, policies, budgets, prices."""
    keep = {
        "subject": user,
        "action": action,
        "resource": resource,
        "since": parse_start(since),
        "until": parse_time(until),
    }
    entries: list[dict[str, Any]] = []
    token = ""
    async with session.gateway(admin=shared) as gateway:
        while len(entries) < limit:
            size = min(limit - len(entries), PAGE_SIZE_MAX)
            query = {**keep, "page_size": size, "page_token": token}
            page = await gateway.call("GET", "/v1/audit-log", query=query)
            entries += page["entries"]
            if not (token := page["next_page_token"]):
                break
    session.output.result(
        {"entries": entries}, listing(COLUMNS, map(_row, entries), ("changed", "with"))
    )


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    outcome = f"rejected: {entry['rejection']}" if entry["rejection"] else entry["outcome"]
    columns = (entry[name] for name in ("time", "subject", "credential", "action", "resource"))
    return (*columns, outcome, ", ".join(changed_paths(entry["before"], entry["after"])))


def changed_paths(before: Any, after: Any, path: str = "") -> list[str]:
    """Returns the paths at which two JSON values differ, like "tool.spec.description"."""
    if before == after or (not path and (before is None or after is None)):
        return []
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return [path]
    return [
        found
        for name in sorted({*before, *after})
        for found in changed_paths(before.get(name), after.get(name), f"{path}.{name}".lstrip("."))
    ]
