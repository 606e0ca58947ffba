"""Alerts in PostgreSQL: raised by a trigger on budget windows, pending until published."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from cost_ledger.budgets.models import BudgetAlert
from cost_ledger.store_engine import set_scope, tenant_transaction
from podium_kit.money import Money

ALERT = """
    SELECT a.sequence, a.tenant, a.budget_id, a.start, a.soft_limit, a.posted, a.create_time,
           a.publish_time, b.hard_limit, b.currency
    FROM budget_alert a JOIN budget b ON (b.tenant, b.id) = (a.tenant, a.budget_id)
"""

PAGE = text(
    ALERT
    + """
    WHERE a.tenant = :tenant AND (:budget_id = '' OR a.budget_id = :budget_id)
      AND a.sequence < :before
    ORDER BY a.sequence DESC LIMIT :limit
    """
)

# Any tenant's; another replica takes other alerts instead of waiting for these.
PENDING = text("SELECT tenant, sequence FROM owed_alerts(:limit)")

BY_SEQUENCE = text(
    ALERT
    + """
    WHERE a.sequence = ANY(CAST(:sequences AS bigint[])) ORDER BY a.sequence
    """
)

PUBLISHED = text("""
    UPDATE budget_alert SET publish_time = ledger_clock()
    WHERE sequence = ANY(CAST(:sequences AS bigint[]))
""")


class AlertStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def page(self, tenant: str, budget_id: str, before: int, limit: int) -> list[BudgetAlert]:
        values = {"tenant": tenant, "budget_id": budget_id, "before": before, "limit": limit}
        async with tenant_transaction(self._engine, tenant) as connection:
            return [_alert(row) for row in await connection.execute(PAGE, values)]

    @asynccontextmanager
    async def publishing(self, limit: int) -> AsyncIterator[list[BudgetAlert]]:
        """The oldest pending alerts, locked; published when the block ends without an error."""
        async with tenant_transaction(self._engine) as connection:
            pending = (await connection.execute(PENDING, {"limit": limit})).all()
            await set_scope(connection, {row.tenant for row in pending})
            sequences = {"sequences": [row.sequence for row in pending]}
            yield [_alert(row) for row in await connection.execute(BY_SEQUENCE, sequences)]
            await connection.execute(PUBLISHED, sequences)


def _alert(row: Any) -> BudgetAlert:
    return BudgetAlert(
        sequence=row.sequence,
        tenant=row.tenant,
        budget_id=row.budget_id,
        window_start=row.start,
        soft_limit=Money(row.soft_limit, row.currency),
        posted=Money(row.posted, row.currency),
        hard_limit=Money(row.hard_limit, row.currency),
        create_time=row.create_time,
        publish_time=row.publish_time,
    )
