from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from podium_kit.metering import Usage
from podium_kit.postgres.engine import autocommit, transaction
from tool_adapters.corpus.models import EmbeddingCost

KEEP = text(
    """
    INSERT INTO bought_vectors (tenant, model, digest, vector)
    SELECT :tenant, :model, new.digest, new.vector
    FROM unnest(CAST(:digests AS bytea[]), CAST(:vectors AS bytea[])) AS new (digest, vector)
    ON CONFLICT DO NOTHING
    """
)
KEPT = text(
    """
    SELECT digest, vector FROM bought_vectors
    WHERE tenant = :tenant AND model = :model AND digest = ANY(CAST(:digests AS bytea[]))
    """
)
DROP = text(
    """
    DELETE FROM bought_vectors
    WHERE tenant = :tenant AND model = :model AND digest = ANY(CAST(:digests AS bytea[]))
    """
)
FORGET_OLD = text("DELETE FROM bought_vectors WHERE create_time < now() - CAST(:age AS interval)")
BEGUN = ("key", "tenant", "subject", "corpus", "sku", "held")


async def keep(
    connection: AsyncConnection, tenant: str, model: str, vectors: Mapping[bytes, bytes]
) -> None:
    values = {"digests": list(vectors), "vectors": list(vectors.values())}
    await connection.execute(KEEP, {"tenant": tenant, "model": model, **values})


class PostgresBoughtVectors:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def kept(self, tenant: str, model: str, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        values = {"tenant": tenant, "model": model, "digests": list(digests)}
        async with autocommit(self._engine) as connection:
            rows = await connection.execute(KEPT, values)
            return {bytes(row.digest): bytes(row.vector) for row in rows}

    async def drop(self, tenant: str, model: str, digests: Sequence[bytes]) -> None:
        values = {"tenant": tenant, "model": model, "digests": list(digests)}
        async with autocommit(self._engine) as connection:
            await connection.execute(DROP, values)

    async def forget_older_than(self, age: timedelta) -> None:
        async with autocommit(self._engine) as connection:
            await connection.execute(FORGET_OLD, {"age": age})


BEGIN = text(
    """
    INSERT INTO embedding_costs (key, tenant, subject, corpus, sku, held)
    VALUES (:key, :tenant, :subject, :corpus, :sku, :held)
    """
)
END = text("UPDATE embedding_costs SET usage = :usage WHERE key = :key")
UNUSED = text("UPDATE embedding_costs SET unused = true WHERE key = :key")
FORGET = text("DELETE FROM embedding_costs WHERE key = ANY(:keys)")
# The oldest of every tenant, of tenants in turn: a tenant that owes much keeps no other waiting.
# BETWEEN, because for "=" PostgreSQL may go through everybody's rows by age.
PENDING = text(
    """
    WITH RECURSIVE tenants AS (
        (SELECT tenant FROM embedding_costs ORDER BY tenant LIMIT 1)
        UNION ALL
        SELECT (SELECT c.tenant FROM embedding_costs c WHERE c.tenant > t.tenant
                ORDER BY c.tenant LIMIT 1)
        FROM tenants t WHERE t.tenant IS NOT NULL
    )
    SELECT pending.* FROM tenants t CROSS JOIN LATERAL (
        SELECT c.*,
               row_number() OVER (ORDER BY c.tenant, c.create_time) AS place
        FROM embedding_costs c
        WHERE c.tenant BETWEEN t.tenant AND t.tenant
            AND (c.usage IS NOT NULL OR c.unused
                OR c.create_time < now() - CAST(:abandoned_after AS interval))
            AND (c.retry_time IS NULL OR c.retry_time <= now())
        ORDER BY c.tenant, c.create_time LIMIT :limit
    ) pending
    ORDER BY pending.place, pending.create_time
    LIMIT :limit
    """
)
REJECTED = text(
    """
    UPDATE embedding_costs SET rejection = :reason, attempts = attempts + 1,
        retry_time = now()
            + least(make_interval(secs => 2 ^ least(attempts, 20)), CAST(:longest AS interval))
    WHERE key = :key
    """
)
AGE = text(
    """
    SELECT coalesce(extract(epoch FROM now() - min(create_time)), 0) FROM embedding_costs
    WHERE usage IS NOT NULL OR unused OR create_time < now() - CAST(:abandoned_after AS interval)
    """
)
RETRY_LONGEST = timedelta(hours=1)


class PostgresPendingCosts:
    def __init__(
        self,
        engine: AsyncEngine,
        encode: Callable[[Usage], bytes],
        decode: Callable[[bytes], Usage],
    ) -> None:
        self._engine = engine
        self._encode = encode
        self._decode = decode

    async def begin(self, cost: EmbeddingCost) -> None:
        values = {name: value for name, value in vars(cost).items() if name in BEGUN}
        async with transaction(self._engine) as connection:
            await connection.execute(BEGIN, values)

    async def end(
        self, cost: EmbeddingCost, usage: Usage, model: str, bought: Mapping[bytes, bytes]
    ) -> None:
        """Notes what it used, and keeps what was bought: both, or neither."""
        values = {"key": cost.key, "usage": self._encode(usage)}
        async with transaction(self._engine) as connection:
            await connection.execute(END, values)
            if bought:
                await keep(connection, cost.tenant, model, bought)

    async def unused(self, key: str) -> None:
        async with transaction(self._engine) as connection:
            await connection.execute(UNUSED, {"key": key})

    async def forget(self, keys: Sequence[str]) -> None:
        async with transaction(self._engine) as connection:
            await connection.execute(FORGET, {"keys": list(keys)})

    async def rejected(self, key: str, reason: str) -> None:
        """Delays a cost that the ledger rejects, longer each time."""
        values = {"key": key, "reason": reason, "longest": RETRY_LONGEST}
        async with transaction(self._engine) as connection:
            await connection.execute(REJECTED, values)

    async def oldest_s(self, abandoned_after: timedelta) -> float:
        """The age of the oldest that the ledger should have; 0 when it has all."""
        async with autocommit(self._engine) as connection:
            found = await connection.execute(AGE, {"abandoned_after": abandoned_after})
            return float(found.scalar_one())

    async def pending(self, limit: int, abandoned_after: timedelta) -> list[EmbeddingCost]:
        """The oldest of each tenant that have ended, or will never end."""
        values = {"limit": limit, "abandoned_after": abandoned_after}
        async with transaction(self._engine) as connection:
            rows = await connection.execute(PENDING, values)
        return [
            EmbeddingCost(
                row.key,
                row.tenant,
                row.subject,
                row.corpus,
                row.sku,
                None if row.usage is None else self._decode(row.usage),
                held=row.held,
                unused=row.unused,
            )
            for row in rows
        ]
