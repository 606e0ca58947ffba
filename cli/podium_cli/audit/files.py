from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from podium.ledger.v1 import audit_pb2, audit_service_pb2
from podium_cli.audit.audit import Tenant, app
from podium_cli.audit.invoice_file import read_invoice
from podium_cli.audit.simulation import simulated_costs, simulation_view
from podium_cli.audit.table_files import ExportPages, write_table
from podium_cli.audit.verifying import progress_bar
from podium_cli.audit.views import FINE, reconciliation_view
from podium_cli.command import Session, command
from podium_cli.formats import counted
from podium_cli.inputs import month_bounds
from podium_cli.output import writing
from podium_cli.prices.lists import read_price_list
from podium_kit.client.errors import UsageError, UserError
from podium_kit.client.gateway import Gateway
from podium_kit.wire import json_values, timestamp_to_proto

LINES_PER_CALL = 1000
FORMATS = ("csv", "parquet", "focus")
FOCUS_VERSIONS = {
    "1.0": audit_pb2.EXPORT_FORMAT_FOCUS_1_0,
    "1.2": audit_pb2.EXPORT_FORMAT_FOCUS_1_2,
}
MONTH = typer.Option(help="Month in UTC, like 2026-10.")
OPEN_STATES = [
    name for name, number in audit_pb2.MatchState.items() if number and number not in FINE
]


@command(app, "export")
async def export(
    session: Session,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")],
    kind: Annotated[str, typer.Option("--format", help="csv, parquet or focus.")] = "csv",
    focus_version: Annotated[
        str,
        typer.Option(help="1.0, as focus-validator 1.0.0 checks it, or 1.2.", show_default=False),
    ] = "",
    month: Annotated[str, MONTH] = "",
    tenant: Tenant = "",
) -> None:
    """Write costs and corrections with their parts; run again to continue after a break."""
    request = audit_service_pb2.ExportChargesRequest(
        format=_format(kind, focus_version), month=month, tenant=tenant
    )
    if kind == "parquet" and output.suffix != ".parquet":
        raise UsageError(f"{output} does not end in .parquet", "name it so, or use --format csv")
    if kind == "csv" and output.suffix == ".parquet":
        raise UsageError(f"{output} is not named as a CSV", "name it so, or use --format parquet")
    if month:
        month_bounds(month)
    with writing(output):
        pages = ExportPages(output, request, session.target.address(admin=bool(tenant)))
    async with session.gateway(admin=bool(tenant)) as gateway:
        with writing(output), progress_bar(session.output.progress, "exporting") as bar:
            async for page in pages.fetch(gateway):
                bar.at(page.sequence, page.head_sequence)
    columns = next(pages.read()).columns
    unpriced = sum(page.unpriced_call_count for page in pages.read())
    rows = (row.values for page in pages.read() for row in page.rows)
    with writing(output):
        count = write_table(output, columns, rows)
    pages.forget()
    text = f"{count} rows in {output}"
    if unpriced:
        text += f"; {counted(unpriced, 'call')} of unknown price " + (
            "have no row" if kind == "focus" else "have no amount"
        )
    values = {"file": str(output), "row_count": count, "unpriced_call_count": unpriced}
    session.output.result(values, Text(text))


@command(app, "reconcile")
async def reconcile(
    session: Session,
    file: Annotated[Path, typer.Argument(help="Invoice as CSV or JSON, a line per call.")],
    *,
    provider: Annotated[str, typer.Option(help="What the provider's SKUs start with.")],
    month: Annotated[str, MONTH],
) -> None:
    """Compare a provider's invoice with the ledger; ends with status 1 if they differ."""
    month_bounds(month)
    digest, lines = read_invoice(file, provider)
    invoice = audit_pb2.Invoice(id=f"{provider}-{month}-{digest}", provider=provider, month=month)
    async with session.gateway() as gateway:
        with progress_bar(session.output.progress, "sending the invoice") as bar:
            for start in range(0, len(lines), LINES_PER_CALL):
                await _send(gateway, invoice, lines, start)
                bar.at(start, len(lines))
            bar.at(len(lines), len(lines), "comparing")
            reply = await gateway.post(
                f"/v1/invoices/{invoice.id}/reconcile",
                {},
                audit_service_pb2.ReconcileInvoiceResponse,
            )
            matches = await _open_matches(gateway, invoice.id)
    data = json_values(reply) | {"matches": [json_values(match) for match in matches]}
    session.output.result(data, reconciliation_view(reply, matches))
    if matches:
        raise UserError(
            f"the invoice and the ledger disagree in {len(matches)} places",
            "`podium audit explain ENTRY` shows what the ledger posted and why",
        )


@command(app, "simulate")
async def simulate(
    session: Session,
    *,
    prices: Annotated[
        Path, typer.Option(help="YAML, JSON or CSV, as `podium prices import` takes it.")
    ],
    month: Annotated[str, MONTH],
    tenant: Tenant = "",
) -> None:
    """Price a past month with another price list, without publishing it."""
    specs = read_price_list(prices)
    start, end = month_bounds(month)
    request = audit_service_pb2.SimulatePricesRequest(
        specs=specs,
        start_time=timestamp_to_proto(start),
        end_time=timestamp_to_proto(end),
        tenant=tenant,
    )
    async with session.gateway(admin=bool(tenant)) as gateway:
        with progress_bar(session.output.progress, "simulating"):
            simulated = await simulated_costs(gateway, request)
    data = {
        "costs": [json_values(cost) for cost in simulated.rows],
        "unpriced": simulated.unpriced,
    }
    session.output.result(data, simulation_view(simulated))
    if not simulated.costs:
        session.output.note(f"no cost occurred in {month}")


def _format(kind: str, focus_version: str) -> audit_pb2.ExportFormat.ValueType:
    if kind not in FORMATS:
        raise UsageError(f"there is no format {kind!r}", f"use {', '.join(FORMATS)}")
    if kind != "focus":
        if focus_version:
            raise UsageError(f"{kind} has no version of FOCUS", "add --format focus")
        return audit_pb2.EXPORT_FORMAT_CHARGES
    if (version := focus_version or "1.0") not in FOCUS_VERSIONS:
        raise UsageError(f"FOCUS {version!r} is not written", f"use {' or '.join(FOCUS_VERSIONS)}")
    return FOCUS_VERSIONS[version]


async def _send(
    gateway: Gateway,
    invoice: audit_pb2.Invoice,
    lines: Sequence[audit_pb2.InvoiceLine],
    start: int,
) -> None:
    request = audit_service_pb2.AddInvoiceLinesRequest(
        invoice=invoice, first_position=start + 1, lines=lines[start : start + LINES_PER_CALL]
    )
    await gateway.post("/v1/invoices", request, audit_service_pb2.AddInvoiceLinesResponse)


async def _open_matches(gateway: Gateway, invoice_id: str) -> list[audit_pb2.InvoiceMatch]:
    found = await gateway.all(
        f"/v1/invoices/{invoice_id}/matches",
        audit_service_pb2.ListInvoiceMatchesResponse,
        states=OPEN_STATES,
        page_size=1000,
    )
    return list(found.matches)
