"""Alerts in PostgreSQL: raised by a trigger on budget windows, owed until published."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from cost_ledger.alerts import BudgetAlert
from cost_ledger.store_engine import database_errors
from money import Money

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

# Another replica takes other alerts instead of waiting for these.
OWED = text(
    ALERT
    + """
    WHERE a.publish_time IS NULL
    ORDER BY a.sequence LIMIT :limit FOR UPDATE OF a SKIP LOCKED
    """
)

PUBLISHED = text("""
    UPDATE budget_alert SET publish_time = clock_timestamp()
    WHERE sequence = ANY(CAST(:sequences AS bigint[]))
""")


class AlertStore:
    """A tenant's alerts, and those that no topic has."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def page(self, tenant: str, budget_id: str, before: int, limit: int) -> list[BudgetAlert]:
        """Alerts older than a sequence, newest first; an empty id means any budget's."""
        values = {"tenant": tenant, "budget_id": budget_id, "before": before, "limit": limit}
        with database_errors():
            async with self._engine.connect() as connection:
                return [_alert(row) for row in await connection.execute(PAGE, values)]

    @asynccontextmanager
    async def publishing(self, limit: int) -> AsyncIterator[list[BudgetAlert]]:
        """The oldest owed alerts, locked; published when the block ends without an error."""
        with database_errors():
            async with self._engine.begin() as connection:
                rows = (await connection.execute(OWED, {"limit": limit})).all()
                yield [_alert(row) for row in rows]
                if rows:
                    sequences = {"sequences": [row.sequence for row in rows]}
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
