from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from podium_kit.postgres.engine import autocommit, transaction


@dataclass(frozen=True)
class DeadLetter:
    row_id: int
    record_id: str
    tenant: str
    kind: str
    group_id: str
    episode_id: str
    """Empty when no single episode made it."""
    reason: str
    size_bytes: int
    create_time: datetime


PAGE = text(
    """
    SELECT o.id, o.record_id, o.tenant, o.kind, o.group_id, o.episode_id, o.dead_letter_reason,
        octet_length(g.body) AS size_bytes, o.create_time
    FROM outbox o JOIN segments g USING (digest)
    WHERE o.dead_letter_reason IS NOT NULL AND o.id < :before
        AND (CAST(:tenant AS text) IS NULL OR o.tenant = :tenant)
    ORDER BY o.id DESC LIMIT :limit
    """
)
KNOWN = text(
    """
    SELECT record_id FROM outbox WHERE record_id = ANY(CAST(:record_ids AS text[]))
        AND dead_letter_reason IS NOT NULL
        AND (CAST(:tenant AS text) IS NULL OR tenant = :tenant)
    """
)
REDRIVE = text(
    """
    UPDATE outbox SET dead_letter_reason = NULL WHERE dead_letter_reason IS NOT NULL
        AND (CAST(:tenant AS text) IS NULL OR tenant = :tenant)
        AND (NOT :some OR record_id = ANY(CAST(:record_ids AS text[])))
    """
)
# Above the id of any row, and within the digits of a page token.
NEWEST = 10**18 - 1


class DeadLetterStore:
    """Dead letters of one tenant, or of all for None."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def page(self, tenant: str | None, before: int, limit: int) -> list[DeadLetter]:
        values = {"tenant": tenant, "before": before, "limit": limit}
        async with autocommit(self._engine) as connection:
            rows = (await connection.execute(PAGE, values)).all()
        return [
            DeadLetter(
                row.id,
                row.record_id,
                row.tenant,
                row.kind,
                row.group_id,
                str(row.episode_id or ""),
                row.dead_letter_reason,
                row.size_bytes,
                row.create_time,
            )
            for row in rows
        ]

    async def known(self, tenant: str | None, record_ids: Sequence[str]) -> set[str]:
        values = {"tenant": tenant, "record_ids": list(record_ids)}
        async with autocommit(self._engine) as connection:
            return set((await connection.execute(KNOWN, values)).scalars())

    async def redrive(self, tenant: str | None, record_ids: Sequence[str]) -> int:
        """Requeues dead letters, all of them when none is named, and returns their number."""
        values = {"tenant": tenant, "some": bool(record_ids), "record_ids": list(record_ids)}
        async with transaction(self._engine) as connection:
            return (await connection.execute(REDRIVE, values)).rowcount
