import builtins
from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Column, DateTime, LargeBinary, MetaData, Row, Table, Text, bindparam, func
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncEngine

from gateway.errors import ApiKeyEnded
from gateway.keys.models import ApiKey
from podium_kit.postgres.engine import autocommit, transaction
from podium_kit.rpc.identity import Role

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
    Column("roles", ARRAY(Text), nullable=False),
    Column("last_used_time", DateTime(timezone=True)),
    Column("successor_id", Text),
    Column("teams", ARRAY(Text), nullable=False),
    Column("origin_id", Text),
    Column("agents", ARRAY(Text), nullable=False),
    Column("creators", ARRAY(Text), nullable=False),
)
SETS = ("scopes", "roles", "teams", "agents", "creators")
USED = API_KEYS.update().where(API_KEYS.c.id == bindparam("key_id"))
# Clocks of replicas differ: a later use stays.
USED = USED.values(last_used_time=func.greatest(API_KEYS.c.last_used_time, bindparam("used_time")))


class PostgresApiKeyStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def insert(self, key: ApiKey) -> None:
        async with autocommit(self._engine) as connection:
            await connection.execute(API_KEYS.insert().values(_values(key)))

    async def replace(self, old: ApiKey, new: ApiKey) -> None:
        """Stores the new key and when the old one ends, both or neither. Raises ApiKeyEnded."""
        # Of two rotations at the same time, one finds that the key has a successor; and who revokes
        # a key at that time leaves none behind.
        lasting = API_KEYS.c.successor_id.is_(None) & API_KEYS.c.revoke_time.is_(None)
        ending = (
            API_KEYS.update()
            .where(API_KEYS.c.id == old.id, lasting)
            .values(expire_time=old.expire_time, successor_id=old.successor_id)
        )
        async with transaction(self._engine) as connection:
            await connection.execute(API_KEYS.insert().values(_values(new)))
            if (await connection.execute(ending)).rowcount == 0:
                raise ApiKeyEnded(old.id)

    async def note_uses(self, uses: Mapping[str, datetime]) -> None:
        rows = [{"key_id": key_id, "used_time": used} for key_id, used in uses.items()]
        async with autocommit(self._engine) as connection:
            await connection.execute(USED, rows)

    async def get(self, key_id: str) -> ApiKey | None:
        """The key of any tenant: the caller learns the tenant from the key."""
        query = API_KEYS.select().where(API_KEYS.c.id == key_id)
        async with autocommit(self._engine) as connection:
            return _key((await connection.execute(query)).one_or_none())

    async def list(self, tenant: str, after_id: str, limit: int) -> builtins.list[ApiKey]:
        mine = (API_KEYS.c.tenant == tenant) & (API_KEYS.c.id > after_id)
        query = API_KEYS.select().where(mine).order_by(API_KEYS.c.id).limit(limit)
        async with autocommit(self._engine) as connection:
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
        async with autocommit(self._engine) as connection:
            return _key((await connection.execute(statement)).one_or_none())


def _key(row: Row[tuple[object, ...]] | None) -> ApiKey | None:
    if row is None:
        return None
    values = dict(row._mapping)
    values["roles"] = map(Role, values["roles"])
    return ApiKey(**values | {name: frozenset(values[name]) for name in SETS})


def _values(key: ApiKey) -> dict[str, object]:
    values = vars(key)
    return values | {name: sorted(values[name]) for name in SETS}
