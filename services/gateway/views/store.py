from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from gateway.views.models import SavedView
from podium_kit.postgres.engine import autocommit, transaction

# The lock makes the count true when several are saved at once.
LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended('saved_views/' || :tenant, 0))")
COUNT = text("SELECT count(*) FROM saved_views WHERE tenant = :tenant AND subject = :subject")
INSERT = text(
    """
    INSERT INTO saved_views (tenant, id, subject, shared, name, query)
    VALUES (:tenant, :id, :subject, :shared, :name, :query) RETURNING *
    """
)
# Everybody has so few of their own that a tenant's are read whole.
LIST = text(
    """
    SELECT * FROM saved_views WHERE tenant = :tenant AND (subject = :subject OR shared)
    ORDER BY shared, lower(name), id LIMIT :limit
    """
)
DELETE = text(
    """
    DELETE FROM saved_views WHERE tenant = :tenant AND id = :id
        AND (subject = :subject OR (shared AND :admin))
    """
)
LISTED_MAX = 500


class PostgresViewStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def insert(self, tenant: str, values: dict[str, Any], maximum: int) -> SavedView | None:
        """Returns None where the subject has that many."""
        asked = {"tenant": tenant, **values}
        async with transaction(self._engine) as connection:
            await connection.execute(LOCK, asked)
            if (await connection.execute(COUNT, asked)).scalar_one() >= maximum:
                return None
            return _view((await connection.execute(INSERT, asked)).one())

    async def list(self, tenant: str, subject: str) -> list[SavedView]:
        """Returns the subject's own, then those that are shared."""
        values = {"tenant": tenant, "subject": subject, "limit": LISTED_MAX}
        async with autocommit(self._engine) as connection:
            return [_view(row) for row in await connection.execute(LIST, values)]

    async def delete(self, tenant: str, view_id: UUID, subject: str, *, admin: bool) -> bool:
        values = {"tenant": tenant, "id": view_id, "subject": subject, "admin": admin}
        async with autocommit(self._engine) as connection:
            return bool((await connection.execute(DELETE, values)).rowcount)


def _view(row: Any) -> SavedView:
    return SavedView(row.id, row.subject, row.shared, row.name, row.query, row.create_time)
