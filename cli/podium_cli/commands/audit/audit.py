"""`podium audit`: explain, verify, anchors, prove, check-proof."""

from pathlib import Path
from typing import Annotated

import typer
from google.protobuf import json_format
from rich.text import Text

from podium.ledger.v1 import audit_pb2, audit_service_pb2
from podium_cli.auditing.explanation_view import explanation_view
from podium_cli.auditing.proofs import check_proof, read_proof, read_public_key
from podium_cli.auditing.verification_view import verification_view
from podium_cli.auditing.verifying import progress_bar, verification_steps
from podium_cli.command import Session, command
from podium_cli.formats import counted, format_time
from podium_cli.listing import listing
from podium_cli.writing import writing
from podium_kit.client.errors import UserError
from podium_kit.wire import json_values

app = typer.Typer(
    name="audit",
    help="Explain, verify, prove, export, reconcile, simulate, close, log.",
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
