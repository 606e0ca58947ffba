from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from podium_kit.metering import Usage
from podium_kit.postgres.engine import autocommit, transaction
from tool_adapters.costs.models import AdapterCost

Store = Callable[[AsyncConnection], Awaitable[None]]

BEGUN = ("key", "tenant", "subject", "tool", "sku", "held")
BEGIN = text(
    """
    INSERT INTO adapter_costs (key, tenant, subject, tool, sku, held)
    VALUES (:key, :tenant, :subject, :tool, :sku, :held)
    """
)
END = text("UPDATE adapter_costs SET usage = :usage WHERE key = :key")
UNUSED = text("UPDATE adapter_costs SET unused = true WHERE key = :key")
FORGET = text("DELETE FROM adapter_costs WHERE key = ANY(:keys)")
# The oldest of every tenant, of tenants in turn: a tenant that owes much keeps no other waiting.
# BETWEEN, because for "=" PostgreSQL may go through everybody's rows by age.
PENDING = text(
    """
    WITH RECURSIVE tenants AS (
        (SELECT tenant FROM adapter_costs ORDER BY tenant LIMIT 1)
        UNION ALL
        SELECT (SELECT c.tenant FROM adapter_costs c WHERE c.tenant > t.tenant
                ORDER BY c.tenant LIMIT 1)
        FROM tenants t WHERE t.tenant IS NOT NULL
    )
    SELECT pending.* FROM tenants t CROSS JOIN LATERAL (
        SELECT c.*,
               row_number() OVER (ORDER BY c.tenant, c.create_time) AS place
        FROM adapter_costs c
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
    UPDATE adapter_costs SET rejection = :reason, attempts = attempts + 1,
        retry_time = now()
            + least(make_interval(secs => 2 ^ least(attempts, 20)), CAST(:longest AS interval))
    WHERE key = :key
    """
)
AGE = text(
    """
    SELECT coalesce(extract(epoch FROM now() - min(create_time)), 0) FROM adapter_costs
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

    async def begin(self, cost: AdapterCost) -> None:
        values = {name: value for name, value in vars(cost).items() if name in BEGUN}
        async with transaction(self._engine) as connection:
            await connection.execute(BEGIN, values)

    async def end(self, key: str, usage: Usage, store: Store | None = None) -> None:
        """Stores what it used, and with `store` what was bought: both, or neither."""
        values = {"key": key, "usage": self._encode(usage)}
        async with transaction(self._engine) as connection:
            await connection.execute(END, values)
            if store is not None:
                await store(connection)

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

    async def pending(self, limit: int, abandoned_after: timedelta) -> list[AdapterCost]:
        """The oldest of each tenant that have ended, or will never end."""
        values = {"limit": limit, "abandoned_after": abandoned_after}
        async with transaction(self._engine) as connection:
            rows = await connection.execute(PENDING, values)
        return [
            AdapterCost(
                row.key,
                row.tenant,
                row.subject,
                row.tool,
                row.sku,
                None if row.usage is None else self._decode(row.usage),
                held=row.held,
                unused=row.unused,
            )
            for row in rows
        ]
