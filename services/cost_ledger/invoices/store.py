import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from cost_ledger.errors import InvoiceConflict
from cost_ledger.exports.models import Month
from cost_ledger.invoices.models import Invoice, InvoiceLine, Match, MatchState
from cost_ledger.journal.store_rows import entry_from_json
from cost_ledger.models import ZERO, Entry
from cost_ledger.store_engine import tenant_transaction, to_json
from podium_kit.money import Money

ADD_INVOICE = text("""
    INSERT INTO invoice (tenant, id, provider, month, create_time)
    VALUES (:tenant, :id, :provider, :month, ledger_clock()) ON CONFLICT DO NOTHING
""")
INVOICE = text("SELECT id, provider, month FROM invoice WHERE tenant = :tenant AND id = :id")
# In one statement: what is stored wins, and what differs from it is returned.
ADD_LINES = text("""
    WITH given AS (
        SELECT * FROM json_populate_recordset(NULL::invoice_line, CAST(:lines AS json))
    ), stored AS (
        SELECT l.* FROM invoice_line l JOIN given USING (tenant, invoice_id, position)
    ), added AS (
        INSERT INTO invoice_line SELECT * FROM given ON CONFLICT DO NOTHING RETURNING position
    )
    SELECT (SELECT count(*) FROM added) AS added,
           (SELECT min(g.position) FROM given g JOIN stored s USING (tenant, invoice_id, position)
            WHERE g IS DISTINCT FROM s) AS differing
""")
LINES = text("""
    SELECT position, provider_request_id, sku, occur_time, amount, currency FROM invoice_line
    WHERE tenant = :tenant AND invoice_id = :id ORDER BY position
""")
# What stands of a provider's calls: costs that nothing took back, as they were adjusted.
UNCORRECTED = text("""
    WITH later AS (
        SELECT corrects_sequence AS sequence, bool_or(kind <> 'adjust') AS is_taken_back,
               sum(spend) AS adjusted
        FROM entry WHERE tenant = :tenant AND corrects_sequence > 0 GROUP BY corrects_sequence
    )
    SELECT row_to_json(e)::text AS entry, later.adjusted
    FROM entry e LEFT JOIN later ON later.sequence = e.sequence
    WHERE e.tenant = :tenant AND e.unit <> '' AND e.kind IN ('capture', 'record')
      AND e.usage_source <> 'estimated' AND starts_with(e.sku, :sku_prefix)
      AND e.occur_time >= :start AND e.occur_time < :end
      AND later.is_taken_back IS NOT TRUE
    ORDER BY e.sequence
""")
FORGET_MATCHES = text("DELETE FROM invoice_match WHERE tenant = :tenant AND invoice_id = :id")
ADD_MATCHES = text("""
    INSERT INTO invoice_match
    SELECT * FROM json_populate_recordset(NULL::invoice_match, CAST(:matches AS json))
""")
RECONCILED = text("""
    UPDATE invoice SET reconcile_time = ledger_clock() WHERE tenant = :tenant AND id = :id
""")
MATCHES = text("""
    SELECT m.ordinal, m.state, l.position, l.provider_request_id, l.sku, l.occur_time, l.amount,
           l.currency, row_to_json(e)::text AS entry,
           (SELECT sum(c.spend) FROM entry c
            WHERE c.tenant = m.tenant AND c.corrects_sequence = m.sequence
              AND c.corrects_sequence > 0 AND c.kind = 'adjust') AS adjusted
    FROM invoice_match m
    LEFT JOIN invoice_line l ON (l.tenant, l.invoice_id, l.position)
        = (m.tenant, m.invoice_id, m.position)
    LEFT JOIN entry e ON (e.tenant, e.sequence) = (m.tenant, m.sequence)
    WHERE m.tenant = :tenant AND m.invoice_id = :id AND m.ordinal > :after
      AND (:any_state OR m.state = ANY(CAST(:states AS text[])))
    ORDER BY m.ordinal LIMIT :limit
""")


class InvoiceStore:
    """Stores lines for ever, and a comparison until the next one."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def add(self, tenant: str, invoice: Invoice, lines: Sequence[InvoiceLine]) -> int:
        """Stores an invoice and lines of it, once, and returns how many were new. Raises
        InvoiceConflict."""
        named = {"tenant": tenant, "id": invoice.id}
        row = {**named, "provider": invoice.provider, "month": str(invoice.month)}
        values = {"lines": to_json(_line_row(tenant, invoice.id, line) for line in lines)}
        async with tenant_transaction(self._engine, tenant) as connection:
            await connection.execute(ADD_INVOICE, row)
            if await _invoice(connection, named) != invoice:
                raise InvoiceConflict(invoice.id, "provider or month")
            result = (await connection.execute(ADD_LINES, values)).one()
            if result.differing:
                raise InvoiceConflict(invoice.id, f"line {result.differing}")
            return int(result.added)

    async def find(self, tenant: str, invoice_id: str) -> Invoice | None:
        async with tenant_transaction(self._engine, tenant) as connection:
            return await _invoice(connection, {"tenant": tenant, "id": invoice_id})

    async def sides(self, tenant: str, invoice: Invoice) -> tuple[list[InvoiceLine], list[Entry]]:
        """Returns the invoice's lines, and the provider's uncorrected costs in its month and the
        months beside it."""
        month = invoice.month
        async with tenant_transaction(self._engine, tenant) as connection:
            named = {"tenant": tenant, "id": invoice.id}
            lines = (await connection.execute(LINES, named)).all()
            span = {"start": month.moved(-1).start, "end": month.next().end}
            values = {"tenant": tenant, "sku_prefix": f"{invoice.provider}/", **span}
            entries = (await connection.execute(UNCORRECTED, values)).all()
        # In a thread: three months of calls take seconds, in which others post.
        return await asyncio.to_thread(
            lambda: ([_line(row) for row in lines], [_entry(row) for row in entries])
        )

    async def store(self, tenant: str, invoice_id: str, matches: Iterable[Match]) -> None:
        named = {"tenant": tenant, "id": invoice_id}
        rows = to_json(
            _match_row(tenant, invoice_id, number, match)
            for number, match in enumerate(matches, start=1)
        )
        async with tenant_transaction(self._engine, tenant) as connection:
            await connection.execute(FORGET_MATCHES, named)
            await connection.execute(ADD_MATCHES, {"matches": rows})
            await connection.execute(RECONCILED, named)

    async def matches(
        self, tenant: str, invoice_id: str, states: Sequence[MatchState], after: int, limit: int
    ) -> list[tuple[int, Match]]:
        values = {
            "tenant": tenant,
            "id": invoice_id,
            "after": after,
            "any_state": not states,
            "states": [state.value for state in states],
            "limit": limit,
        }
        async with tenant_transaction(self._engine, tenant) as connection:
            rows = (await connection.execute(MATCHES, values)).all()
        return [(row.ordinal, _match(row)) for row in rows]


async def _invoice(connection: AsyncConnection, named: dict[str, str]) -> Invoice | None:
    row = (await connection.execute(INVOICE, named)).first()
    return Invoice(row.id, row.provider, Month.parse(row.month)) if row else None


def _line_row(tenant: str, invoice_id: str, line: InvoiceLine) -> dict[str, Any]:
    return {
        "tenant": tenant,
        "invoice_id": invoice_id,
        "position": line.position,
        "provider_request_id": line.provider_request_id,
        "sku": line.sku,
        "occur_time": line.occur_time,
        "amount": line.amount.amount,
        "currency": line.amount.currency_code,
    }


def _line(row: Any) -> InvoiceLine:
    return InvoiceLine(
        row.position,
        row.provider_request_id,
        row.sku,
        row.occur_time,
        Money(row.amount, row.currency),
    )


def _match_row(tenant: str, invoice_id: str, number: int, match: Match) -> dict[str, Any]:
    return {
        "tenant": tenant,
        "invoice_id": invoice_id,
        "ordinal": number,
        "state": match.state,
        "position": match.line.position if match.line else None,
        "sequence": match.entry.sequence if match.entry else None,
    }


def _match(row: Any) -> Match:
    return Match(
        MatchState(row.state),
        _line(row) if row.position else None,
        _entry(row) if row.entry else None,
    )


def _entry(row: Any) -> Entry:
    return entry_from_json(row.entry).adjusted_by(row.adjusted or ZERO)
