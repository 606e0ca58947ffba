from datetime import UTC, datetime

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from episodes.tenant_events.models import STORED_FOR, EventPosition, StreamedEvent
from podium_kit.postgres.engine import autocommit, transaction

# Transactions before the oldest that still writes have ended.
NEWEST = text(
    """
    SELECT CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint) AS transaction_id,
           clock_timestamp() AS seen_time
    """
)
AFTER = text(
    """
    SELECT CAST(CAST(transaction_id AS text) AS bigint) AS transaction_id, id, event_type, body,
           create_time
    FROM tenant_events
    WHERE tenant = :tenant
        AND (transaction_id, id) > (CAST(CAST(:transaction_id AS text) AS xid8), :id)
        AND transaction_id < pg_snapshot_xmin(pg_current_snapshot())
    ORDER BY tenant_events.transaction_id, id LIMIT :limit
    """
)
FORGET = text(
    "DELETE FROM tenant_events WHERE create_time < clock_timestamp() - CAST(:age AS interval)"
)
READ_MAX = 500


class TenantEventStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def newest(self) -> EventPosition:
        """Returns the position after everything that has happened."""
        async with autocommit(self._engine) as connection:
            row = (await connection.execute(NEWEST)).one()
        return EventPosition(row.transaction_id, 0, row.seen_time)

    async def after(self, tenant: str, position: EventPosition) -> list[StreamedEvent]:
        values = {
            "tenant": tenant,
            "transaction_id": str(position.transaction_id),
            "id": position.id,
            "limit": READ_MAX,
        }
        async with autocommit(self._engine) as connection:
            rows = (await connection.execute(AFTER, values)).all()
        now = datetime.now(UTC)
        return [
            StreamedEvent(
                EventPosition(row.transaction_id, row.id, now),
                row.event_type,
                row.body,
                row.create_time,
            )
            for row in rows
        ]

    async def forget(self) -> None:
        async with transaction(self._engine) as connection:
            await connection.execute(FORGET, {"age": STORED_FOR})
