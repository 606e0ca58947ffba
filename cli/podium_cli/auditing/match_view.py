"""What an invoice and the ledger have to do with each other, as a table."""

from rich.console import Group, RenderableType
from rich.text import Text

from podium.ledger.v1 import audit_pb2, audit_service_pb2
from podium_cli.auditing.amounts import exact_money, sums
from podium_cli.formats import format_time, one_line
from podium_cli.listing import listing
from podium_kit.wire import enum_word

PREFIX = "MATCH_STATE_"
# What needs no attention.
FINE = {audit_pb2.MATCH_STATE_MATCHED, audit_pb2.MATCH_STATE_ROUNDED}
SHOWN_MAX = 50
COLUMNS = (
    "line#",
    "state",
    "SKU",
    "request",
    "happened",
    "billed#",
    "entry#",
    "posted#",
    "difference#",
)


def state_word(state: audit_pb2.MatchState.ValueType) -> str:
    """ "missing in ledger"."""
    return enum_word(audit_pb2.MatchState.Name(state), PREFIX)


def reconciliation_view(
    reply: audit_service_pb2.ReconcileInvoiceResponse, matches: list[audit_pb2.InvoiceMatch]
) -> RenderableType:
    """Sums per state, then the pairings that are not fine."""
    summary = [
        (_coloured(each.state), str(each.count), sums(each.billed), sums(each.posted))
        for each in reply.summaries
    ]
    blocks: list[RenderableType] = [listing(("state", "lines#", "billed#", "posted#"), summary)]
    if matches:
        rows = [_row(match) for match in matches[:SHOWN_MAX]]
        blocks += [Text(), listing(COLUMNS, rows, ("SKU", "happened"))]
    if len(matches) > SHOWN_MAX:
        blocks.append(Text(f"and {len(matches) - SHOWN_MAX} more: see --json", "dim"))
    return Group(*blocks)


def _row(match: audit_pb2.InvoiceMatch) -> tuple[str | Text, ...]:
    line, entry = match.line, match.entry
    has_line, has_entry = match.HasField("line"), match.HasField("entry")
    request = line.provider_request_id or entry.usage.provider_request_id
    return (
        str(match.position) if has_line else "-",
        _coloured(match.state),
        line.sku or entry.sku,
        one_line(request, 24) or "-",
        format_time(line.occur_time if has_line else entry.occur_time),
        exact_money(line.amount) if has_line else "-",
        str(entry.sequence) if has_entry else "-",
        exact_money(entry.amount) if has_entry else "-",
        exact_money(match.difference) if match.HasField("difference") else "-",
    )


def _coloured(state: audit_pb2.MatchState.ValueType) -> Text:
    return Text(state_word(state), style="green" if state in FINE else "red")
