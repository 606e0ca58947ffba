"""API keys in PostgreSQL."""

import builtins

from sqlalchemy import Column, DateTime, LargeBinary, MetaData, Row, Table, Text, func
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncEngine

from gateway.api_keys import ApiKey

API_KEYS = Table(
    "api_keys",
    MetaData(),
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("scopes", ARRAY(Text), nullable=False),
    Column("secret_hash", LargeBinary, nullable=False),
    Column("create_time", DateTime(timezone=True), nullable=False),
    Column("expire_time", DateTime(timezone=True)),
    Column("revoke_time", DateTime(timezone=True)),
)


class PostgresApiKeyStore:
    """See `api_keys.ApiKeyStore`."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def insert(self, key: ApiKey) -> None:
        """Stores a new key."""
        values = {**vars(key), "scopes": sorted(key.scopes)}
        async with self._engine.connect() as connection:
            await connection.execute(API_KEYS.insert().values(values))

    async def get(self, key_id: str) -> ApiKey | None:
        """The key, whoever's it is: a key says its tenant, not the other way round."""
        query = API_KEYS.select().where(API_KEYS.c.id == key_id)
        async with self._engine.connect() as connection:
            return _key((await connection.execute(query)).one_or_none())

    async def list(self, tenant: str, after_id: str, limit: int) -> builtins.list[ApiKey]:
        """The tenant's keys after an id, in id order."""
        mine = (API_KEYS.c.tenant == tenant) & (API_KEYS.c.id > after_id)
        query = API_KEYS.select().where(mine).order_by(API_KEYS.c.id).limit(limit)
        async with self._engine.connect() as connection:
            rows = await connection.execute(query)
            return [key for row in rows if (key := _key(row))]

    async def revoke(self, tenant: str, key_id: str) -> ApiKey | None:
        """Ends the key at its first revocation; None when the tenant has no such key."""
        statement = (
            API_KEYS.update()
            .where(API_KEYS.c.tenant == tenant, API_KEYS.c.id == key_id)
            .values(revoke_time=func.coalesce(API_KEYS.c.revoke_time, func.now()))
            .returning(*API_KEYS.c)
        )
        async with self._engine.connect() as connection:
            return _key((await connection.execute(statement)).one_or_none())


def _key(row: Row[tuple[object, ...]] | None) -> ApiKey | None:
    if row is None:
        return None
    values = dict(row._mapping)
    return ApiKey(**{**values, "scopes": frozenset(values["scopes"])})
