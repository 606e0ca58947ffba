import json
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from podium_kit.postgres.engine import autocommit, transaction
from tool_adapters.following.models import FollowedServer
from tool_adapters.secret_store import PLATFORM

ReadRow = Callable[[Any], FollowedServer]

# A server that another owner follows under this id is not changed.
FOLLOW = text(
    """
    INSERT INTO followed_servers (id, owner, definition) VALUES (:id, :owner, :definition)
    ON CONFLICT (id) DO UPDATE SET definition = :definition, problem = ''
    WHERE followed_servers.owner = :owner
    RETURNING *
    """
)
OTHERS = text("SELECT count(*) FROM followed_servers WHERE owner = :owner AND id <> :id")
FIND = text("SELECT * FROM followed_servers WHERE id = :id AND owner IN (:tenant, :platform)")
UNFOLLOW = text("DELETE FROM followed_servers WHERE id = :id AND owner = :owner")
LIST = text(
    """
    SELECT * FROM followed_servers WHERE owner IN (:tenant, :platform) AND id > :after
    ORDER BY id LIMIT :limit
    """
)
# Two processes that want the same row take turns, and the second finds it taken.
LEASE = text(
    """
    UPDATE followed_servers
    SET follower = :follower, lease_expire_time = clock_timestamp() + :lease_s * interval '1 second'
    WHERE follower = :follower OR lease_expire_time < clock_timestamp()
    RETURNING *
    """
)
RELEASE = text(
    """
    UPDATE followed_servers SET follower = '', lease_expire_time = '-infinity'
    WHERE follower = :follower
    """
)
LISTED = text("SELECT listed FROM followed_servers WHERE id = :id")
KEEP_LISTED = text("UPDATE followed_servers SET listed = :listed WHERE id = :id")
# A problem of the former definition says nothing about this one.
KEEP_PROBLEM = text(
    "UPDATE followed_servers SET problem = :problem WHERE id = :id AND definition = :definition"
)


class PostgresFollowedServerStore:
    """One row per followed server; a row is read back by the function it is given."""

    def __init__(self, engine: AsyncEngine, read_row: ReadRow) -> None:
        self._engine = engine
        self._read_row = read_row

    async def follow(self, server: FollowedServer) -> FollowedServer | None:
        """The stored server; None when the id belongs to another owner."""
        values = {"id": server.id, "owner": server.owner, "definition": server.definition}
        rows = await self._rows(FOLLOW, values)
        return rows[0] if rows else None

    async def others(self, server: FollowedServer) -> int:
        values = {"id": server.id, "owner": server.owner}
        async with autocommit(self._engine) as connection:
            return int((await connection.execute(OTHERS, values)).scalar_one())

    async def find(self, tenant: str, server_id: str) -> FollowedServer | None:
        values = {"id": server_id, "tenant": tenant, "platform": PLATFORM}
        rows = await self._rows(FIND, values)
        return rows[0] if rows else None

    async def unfollow(self, server: FollowedServer) -> None:
        async with transaction(self._engine) as connection:
            await connection.execute(UNFOLLOW, {"id": server.id, "owner": server.owner})

    async def list_for(self, tenant: str, after: str, limit: int) -> list[FollowedServer]:
        values = {"tenant": tenant, "platform": PLATFORM, "after": after, "limit": limit}
        return await self._rows(LIST, values)

    async def lease(self, follower: str, lease_s: float) -> list[FollowedServer]:
        """Leases every server that is this follower's already or has no follower."""
        return await self._rows(LEASE, {"follower": follower, "lease_s": lease_s})

    async def release(self, follower: str) -> None:
        async with transaction(self._engine) as connection:
            await connection.execute(RELEASE, {"follower": follower})

    async def listed(self, server_id: str) -> dict[str, str]:
        """Digests of what was registered last, by name; empty for a server no longer followed."""
        async with autocommit(self._engine) as connection:
            row = (await connection.execute(LISTED, {"id": server_id})).one_or_none()
        return dict(row.listed) if row else {}

    async def keep_listed(
        self, server: FollowedServer, listed: Mapping[str, str], problem: str
    ) -> None:
        async with transaction(self._engine) as connection:
            values = {"id": server.id, "listed": json.dumps(dict(listed))}
            await connection.execute(KEEP_LISTED, values)
            await _keep_problem(connection, server, problem)

    async def keep_problem(self, server: FollowedServer, problem: str) -> None:
        async with transaction(self._engine) as connection:
            await _keep_problem(connection, server, problem)

    async def _rows(self, statement: Any, values: dict[str, Any]) -> list[FollowedServer]:
        async with transaction(self._engine) as connection:
            return [self._read_row(row) for row in await connection.execute(statement, values)]


async def _keep_problem(connection: AsyncConnection, server: FollowedServer, problem: str) -> None:
    values = {"id": server.id, "definition": server.definition, "problem": problem}
    await connection.execute(KEEP_PROBLEM, values)
