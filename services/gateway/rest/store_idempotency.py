from datetime import timedelta

from sqlalchemy import Column, DateTime, MetaData, Table, Text, func, text
from sqlalchemy.dialects.postgresql import UUID, insert
from sqlalchemy.ext.asyncio import AsyncEngine

from podium_kit.postgres.engine import autocommit

IDEMPOTENCY_KEYS = Table(
    "idempotency_keys",
    MetaData(),
    Column("tenant", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("episode_id", UUID(as_uuid=False), nullable=False),
    Column("create_time", DateTime(timezone=True), nullable=False, server_default=func.now()),
)

# Of every start without a key, mostly in vain: text is not built anew each time.
TAKE = text(
    """
    DELETE FROM idempotency_keys WHERE tenant = :tenant AND key = :key
    RETURNING episode_id, create_time > now() - CAST(:age AS interval) AS is_recent
    """
)


class PostgresIdempotencyStore:
    """The first request with a key names the episode; later ones get the same name."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def episode_for(self, tenant: str, key: str, proposed_id: str) -> str:
        row = insert(IDEMPOTENCY_KEYS).values(tenant=tenant, key=key, episode_id=proposed_id)
        # An update that changes nothing: DO NOTHING would not return the row that is there.
        statement = row.on_conflict_do_update(
            index_elements=["tenant", "key"], set_={"key": row.excluded.key}
        ).returning(IDEMPOTENCY_KEYS.c.episode_id)
        async with autocommit(self._engine) as connection:
            return str((await connection.execute(statement)).scalar_one())

    async def take(self, tenant: str, key: str, age: timedelta) -> str | None:
        """The name that a key has had for no longer than an age; the key has none from now on."""
        values = {"tenant": tenant, "key": key, "age": age}
        async with autocommit(self._engine) as connection:
            row = (await connection.execute(TAKE, values)).one_or_none()
        return str(row.episode_id) if row and row.is_recent else None

    async def forget(self, age: timedelta) -> None:
        old = IDEMPOTENCY_KEYS.c.create_time < func.now() - age
        async with autocommit(self._engine) as connection:
            await connection.execute(IDEMPOTENCY_KEYS.delete().where(old))
