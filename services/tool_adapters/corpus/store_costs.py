"""What vectors used and the ledger does not have yet, in PostgreSQL."""

from collections.abc import Callable, Sequence
from datetime import timedelta

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from podium_kit.metering import Usage
from podium_kit.postgres.engine import transaction
from tool_adapters.corpus.charging import EmbeddingCost

BEGIN = text(
    """
    INSERT INTO embedding_costs (key, tenant, subject, corpus, sku)
    VALUES (:key, :tenant, :subject, :corpus, :sku)
    """
)
END = text("UPDATE embedding_costs SET usage = :usage WHERE key = :key")
FORGET = text("DELETE FROM embedding_costs WHERE key = ANY(:keys)")
OWED = text(
    """
    SELECT key, tenant, subject, corpus, sku, usage FROM embedding_costs
    WHERE usage IS NOT NULL OR create_time < now() - CAST(:abandoned_after AS interval)
    ORDER BY create_time
    LIMIT :limit
    """
)


class PostgresOwedCosts:
    """A row for each request about a corpus that asked for vectors."""

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
        """Notes that a request is about to be sent."""
        values = {name: value for name, value in vars(cost).items() if name != "usage"}
        async with transaction(self._engine) as connection:
            await connection.execute(BEGIN, values)

    async def end(self, key: str, usage: Usage) -> None:
        """Notes what it used."""
        values = {"key": key, "usage": self._encode(usage)}
        async with transaction(self._engine) as connection:
            await connection.execute(END, values)

    async def forget(self, keys: Sequence[str]) -> None:
        """Forgets what the ledger has, or what used nothing."""
        async with transaction(self._engine) as connection:
            await connection.execute(FORGET, {"keys": list(keys)})

    async def owed(self, limit: int, abandoned_after: timedelta) -> list[EmbeddingCost]:
        """The oldest that have ended, or will never end."""
        values = {"limit": limit, "abandoned_after": abandoned_after}
        async with transaction(self._engine) as connection:
            rows = await connection.execute(OWED, values)
        return [
            EmbeddingCost(
                row.key,
                row.tenant,
                row.subject,
                row.corpus,
                row.sku,
                None if row.usage is None else self._decode(row.usage),
            )
            for row in rows
        ]
