from collections.abc import Mapping, Sequence
from datetime import timedelta

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from podium_kit.postgres.engine import autocommit

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
