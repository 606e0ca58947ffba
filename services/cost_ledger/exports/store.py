from datetime import datetime

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from cost_ledger.exports.models import Month
from cost_ledger.journal.store_rows import entry_from_json
from cost_ledger.models import Entry
from cost_ledger.store_engine import tenant_transaction

HEAD = text("""
    SELECT coalesce((SELECT sequence FROM ledger_head WHERE tenant = :tenant), 0)
""")
CHARGES = text("""
    SELECT row_to_json(e)::text AS entry, CASE WHEN e.corrects_sequence > 0 THEN (
        SELECT c.create_time FROM entry c
        WHERE c.tenant = e.tenant AND c.sequence = e.corrects_sequence
    ) END AS corrected_create_time
    FROM entry e
    WHERE e.tenant = :tenant AND e.sequence > :after AND e.unit <> ''
      AND e.kind IN ('capture', 'record', 'settle', 'adjust')
      AND (CAST(:start AS timestamptz) IS NULL OR e.create_time >= :start)
      AND (CAST(:end AS timestamptz) IS NULL OR e.create_time < :end)
    ORDER BY e.sequence LIMIT :limit
""")


class ChargeStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def page(
        self, tenant: str, month: Month | None, after: int, limit: int
    ) -> tuple[int, list[tuple[Entry, datetime | None]]]:
        """The tenant's newest sequence, and costs posted in a month, oldest first, each with
        when what it corrects was posted."""
        span = {"start": month.start if month else None, "end": month.end if month else None}
        values = {"tenant": tenant, "after": after, "limit": limit, **span}
        async with tenant_transaction(self._engine, tenant) as connection:
            head = int((await connection.execute(HEAD, {"tenant": tenant})).scalar_one())
            rows = (await connection.execute(CHARGES, values)).all()
        return head, [(entry_from_json(row.entry), row.corrected_create_time) for row in rows]
