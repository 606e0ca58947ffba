"""Daily sums of the journal up to a watermark, moved on in the transaction that adds to them.

A tenant's sequences are committed in order and without gaps, so "every entry up to the
watermark, once" needs no more than the watermark.
"""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from cost_ledger.store_engine import database_errors, tenant_transaction

# Enough that a step costs little beyond its rows, few enough that it never blocks for long.
ENTRIES_PER_STEP = 50_000

BEHIND = text("SELECT tenants_behind() AS tenant")

START = text("""
    INSERT INTO rollup_watermark (tenant, sequence) VALUES (:tenant, 0) ON CONFLICT DO NOTHING
""")

# The head is read after the lock: entries up to it are committed and never change.
LOCK = text("""
    SELECT w.sequence, h.sequence AS head
    FROM rollup_watermark w JOIN ledger_head h USING (tenant)
    WHERE w.tenant = :tenant FOR UPDATE OF w
""")

ADD_COSTS = text("""
    INSERT INTO rollup_day AS r
    SELECT tenant, (occur_time AT TIME ZONE 'UTC')::date, model, tool, price_version_id, currency,
           sum(amount), sum(calls), sum(unpriced_calls)
    FROM charge WHERE tenant = :tenant AND sequence > :after AND sequence <= :until
    GROUP BY 1, 2, 3, 4, 5, 6
    ON CONFLICT (tenant, day, model, tool, price_version_id, currency) DO UPDATE
    SET amount = r.amount + excluded.amount, calls = r.calls + excluded.calls,
        unpriced_calls = r.unpriced_calls + excluded.unpriced_calls
""")

ADD_USAGE = text("""
    INSERT INTO rollup_day_usage AS r
    SELECT tenant, (occur_time AT TIME ZONE 'UTC')::date, model, tool, price_version_id, used.key,
           sum(sign(calls) * used.value::numeric)
    FROM charge CROSS JOIN LATERAL jsonb_each_text(quantities) used
    WHERE tenant = :tenant AND sequence > :after AND sequence <= :until
    GROUP BY 1, 2, 3, 4, 5, 6
    ON CONFLICT (tenant, day, model, tool, price_version_id, dimension) DO UPDATE
    SET amount = r.amount + excluded.amount
""")

MOVE = text("UPDATE rollup_watermark SET sequence = :until WHERE tenant = :tenant")


class RollupStore:
    """Keeps `rollup_day` and `rollup_day_usage`."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def advance(self) -> int:
        """Adds what is new for every tenant; how many entries that were."""
        with database_errors():
            async with self._engine.connect() as connection:
                tenants = (await connection.execute(BEHIND)).scalars().all()
        return sum([await self.advance_tenant(tenant) for tenant in tenants])

    async def advance_tenant(self, tenant: str) -> int:
        """Adds what is new for one tenant, step by step; how many entries that were."""
        total = 0
        while added := await self._step(tenant):
            total += added
        return total

    async def _step(self, tenant: str) -> int:
        async with tenant_transaction(self._engine, tenant) as connection:
            await connection.execute(START, {"tenant": tenant})
            return await _add(connection, tenant)


async def _add(connection: AsyncConnection, tenant: str) -> int:
    mark = (await connection.execute(LOCK, {"tenant": tenant})).one_or_none()
    if mark is None or mark.head == mark.sequence:
        return 0
    until = min(mark.head, mark.sequence + ENTRIES_PER_STEP)
    span = {"tenant": tenant, "after": mark.sequence, "until": until}
    for statement in (ADD_COSTS, ADD_USAGE):
        await connection.execute(statement, span)
    await connection.execute(MOVE, {"tenant": tenant, "until": until})
    return int(until - mark.sequence)
