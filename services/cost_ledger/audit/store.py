import json
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from cost_ledger.audit.models import BudgetDecision, EntryRecords
from cost_ledger.journal.store_reads import read_entries
from cost_ledger.journal.store_rows import hold_from_row
from cost_ledger.models import Entry
from cost_ledger.store_engine import parsed, tenant_transaction
from podium_kit.money import Money

HEAD = text("""
    SELECT coalesce((SELECT sequence FROM ledger_head WHERE tenant = :tenant), 0)
""")
ENTRIES = text("""
    SELECT row_to_json(e)::text FROM entry e
    WHERE tenant = :tenant AND sequence BETWEEN :first AND :last ORDER BY sequence
""")
# The cost of a call: its newest one, or else the held amount.
BY_KEY = text("""
    SELECT sequence FROM entry WHERE tenant = :tenant AND key = :key
    ORDER BY kind IN ('capture', 'record', 'adjust') DESC, sequence DESC LIMIT 1
""")
RELATED = text("""
    SELECT row_to_json(e)::text FROM entry e
    WHERE tenant = :tenant AND (
        key = :key OR sequence = :corrects
        OR (corrects_sequence > 0 AND corrects_sequence = :sequence)
    ) AND sequence <> :sequence
    ORDER BY sequence LIMIT 100
""")
HOLD = text("SELECT row_to_json(h)::text FROM hold h WHERE tenant = :tenant AND key = :key")
BUDGETS = text("""
    SELECT asked.budget_id, asked.start, limit_at(b, ledger_clock()) AS hard_limit, b.currency,
           w.posted, w.held
    FROM json_to_recordset(CAST(:asked AS json)) AS asked(budget_id text, start timestamptz)
    LEFT JOIN budget b ON b.tenant = :tenant AND b.id = asked.budget_id
    LEFT JOIN budget_window w ON w.tenant = :tenant AND w.budget_id = asked.budget_id
        AND w.start = asked.start
    ORDER BY asked.budget_id, asked.start
""")
COSTS = """
    SELECT row_to_json(e)::text FROM entry e
    WHERE e.tenant = :tenant AND e.sequence > :after AND e.unit <> '' {of_episode}
      AND e.kind IN ('capture', 'record', 'settle', 'adjust')
      AND (CAST(:start AS timestamptz) IS NULL OR e.occur_time >= :start)
      AND (CAST(:end AS timestamptz) IS NULL OR e.occur_time < :end)
    ORDER BY e.sequence LIMIT :limit
"""
COSTS_OF_ALL = text(COSTS.format(of_episode=""))
# Names the partial index's condition, or it could not be used.
COSTS_OF_EPISODE = text(
    COSTS.format(of_episode="AND e.episode_id = :episode_id AND e.episode_id <> ''")
)


class AuditStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def head(self, tenant: str) -> int:
        async with tenant_transaction(self._engine, tenant) as connection:
            return int((await connection.execute(HEAD, {"tenant": tenant})).scalar_one())

    async def entries(self, tenant: str, first: int, last: int) -> list[Entry]:
        return await self._entries(ENTRIES, tenant, first=first, last=last)

    async def find(self, tenant: str, sequence_or_key: str) -> EntryRecords | None:
        async with tenant_transaction(self._engine, tenant) as connection:
            sequence = await _sequence(connection, tenant, sequence_or_key)
            return await _found(connection, tenant, sequence) if sequence else None

    async def costs(
        self,
        tenant: str,
        start: datetime | None,
        end: datetime | None,
        *,
        after: int,
        limit: int,
        episode_id: str = "",
    ) -> list[Entry]:
        """Costs of calls that happened in [start, end), in the order they were posted."""
        values = {"start": start, "end": end, "after": after, "limit": limit}
        if not episode_id:
            return await self._entries(COSTS_OF_ALL, tenant, **values)
        return await self._entries(COSTS_OF_EPISODE, tenant, **values, episode_id=episode_id)

    async def _entries(self, statement: Any, tenant: str, **values: Any) -> list[Entry]:
        async with tenant_transaction(self._engine, tenant) as connection:
            return await read_entries(connection, statement, tenant, **values)


async def _sequence(connection: AsyncConnection, tenant: str, asked: str) -> int:
    if asked.isdecimal() and len(asked) <= 18:
        return int(asked)
    found = await connection.execute(BY_KEY, {"tenant": tenant, "key": asked})
    return int(found.scalar() or 0)


async def _found(connection: AsyncConnection, tenant: str, sequence: int) -> EntryRecords | None:
    near = await read_entries(connection, ENTRIES, tenant, first=sequence - 1, last=sequence)
    if not near or near[-1].sequence != sequence:
        return None
    entry = near[-1]
    names = {"tenant": tenant, "key": entry.call.key}
    hold = (await connection.execute(HOLD, names)).scalar()
    related = await read_entries(
        connection,
        RELATED,
        tenant,
        key=entry.call.key,
        sequence=sequence,
        corrects=entry.corrects_sequence,
    )
    return EntryRecords(
        entry=entry,
        previous=near[0] if len(near) > 1 else None,
        hold=hold_from_row(parsed(hold)) if hold else None,
        related=tuple(related),
        budgets=await _budgets(connection, entry),
    )


async def _budgets(connection: AsyncConnection, entry: Entry) -> tuple[BudgetDecision, ...]:
    asked = [
        {"budget_id": key.budget_id, "start": key.start.isoformat()} for key in entry.call.windows
    ]
    values = {"tenant": entry.call.tenant, "asked": json.dumps(asked)}
    return tuple(_budget(row) for row in (await connection.execute(BUDGETS, values)).all())


def _budget(row: Any) -> BudgetDecision:
    def money(amount: Decimal | None) -> Money | None:
        return Money(amount, row.currency) if amount is not None and row.currency else None

    return BudgetDecision(
        row.budget_id, row.start, money(row.hard_limit), money(row.posted), money(row.held)
    )
