from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from podium_kit.postgres.engine import autocommit, transaction
from tool_registry.following.models import FollowedTools

# Two at once take turns: neither may take a prefix that overlaps with the other's.
LOCK = text("SELECT pg_advisory_xact_lock(hashtext('followed_tools'))")
OVERLAPPING = text(
    """
    SELECT 1 FROM followed_tools
    WHERE owner = :owner AND server_id <> :server_id
        AND (starts_with(name_prefix, :name_prefix) OR starts_with(:name_prefix, name_prefix))
    """
)
# A server that another owner follows under this id is not changed.
ALLOW = text(
    """
    INSERT INTO followed_tools (server_id, owner, name_prefix, common, allowed_by)
    VALUES (:server_id, :owner, :name_prefix, :common, :allowed_by)
    ON CONFLICT (server_id) DO UPDATE SET
        name_prefix = excluded.name_prefix,
        common = excluded.common,
        allowed_by = excluded.allowed_by,
        update_time = clock_timestamp()
    WHERE followed_tools.owner = excluded.owner
    RETURNING 1
    """
)
END = text("DELETE FROM followed_tools WHERE server_id = :server_id AND owner = ANY(:owners)")
FIND = text("SELECT * FROM followed_tools WHERE server_id = :server_id AND owner = ANY(:owners)")


class PostgresFollowingStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def allow(self, followed: FollowedTools, allowed_by: str) -> bool:
        """Returns False when the id or the names are another server's."""
        values: dict[str, Any] = {
            "server_id": followed.server_id,
            "owner": followed.owner,
            "name_prefix": followed.name_prefix,
            "common": followed.common,
            "allowed_by": allowed_by,
        }
        async with transaction(self._engine) as connection:
            await connection.execute(LOCK)
            if (await connection.execute(OVERLAPPING, values)).first() is not None:
                return False
            return (await connection.execute(ALLOW, values)).first() is not None

    async def end(self, owners: tuple[str, ...], server_id: str) -> None:
        async with transaction(self._engine) as connection:
            await connection.execute(END, {"server_id": server_id, "owners": list(owners)})

    async def find(self, owners: tuple[str, ...], server_id: str) -> FollowedTools | None:
        values = {"server_id": server_id, "owners": list(owners)}
        async with autocommit(self._engine) as connection:
            row = (await connection.execute(FIND, values)).one_or_none()
        if row is None:
            return None
        return FollowedTools(str(row.server_id), row.owner, row.name_prefix, row.common)
