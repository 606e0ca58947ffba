from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.engine import CursorResult
from sqlalchemy.ext.asyncio import AsyncEngine

from gateway.limits.models import TenantLimits
from gateway.limits.rate_limiter import DrawnTokens
from podium_kit.postgres.engine import autocommit

GET = """
    SELECT requests_per_s, burst, concurrency, running_episodes, files, file_bytes
    FROM tenant_limits WHERE tenant = :tenant
"""
# What is not changed stays as it is in the row, which another change may have written meanwhile.
PUT = """
    INSERT INTO tenant_limits (
        tenant, requests_per_s, burst, concurrency, running_episodes, files, file_bytes
    )
    VALUES (
        :tenant, :requests_per_s, :burst, :concurrency, :running_episodes, :files, :file_bytes
    )
    ON CONFLICT (tenant) DO UPDATE SET tenant = excluded.tenant{changes}
    RETURNING requests_per_s, burst, concurrency, running_episodes, files, file_bytes
"""
DELETE = "DELETE FROM tenant_limits WHERE tenant = :tenant"
# The database's clock is one for all replicas.
NOW = "coalesce(CAST(:now AS timestamptz), clock_timestamp())"
# The row lock of the upsert makes replicas draw one after the other.
AVAILABLE = f"""least(:burst, bucket.tokens
    + :rate * extract(epoch FROM {NOW} - bucket.refill_time))"""
DRAW = f"""
    INSERT INTO rate_bucket AS bucket (tenant, tokens, granted, refill_time)
    VALUES (:tenant, CAST(:burst AS double precision) - :wanted, :wanted, {NOW})
    ON CONFLICT (tenant) DO UPDATE SET
        granted = least(:wanted, floor({AVAILABLE})),
        tokens = {AVAILABLE} - least(:wanted, floor({AVAILABLE})),
        refill_time = {NOW}
    RETURNING granted, tokens
"""  # noqa: S608  built from constants
TAKE = "SELECT take_slots(:tenant, :replica, :wanted, :total, :lease_s)"
KEEP = "UPDATE concurrency_lease SET slots = :slots WHERE tenant = :tenant AND replica = :replica"
RENEW = """
    UPDATE concurrency_lease
    SET expire_time = clock_timestamp() + make_interval(secs => :lease_s)
    WHERE replica = :replica
    RETURNING tenant, slots
"""


class _Statements:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def _run(self, sql: str, values: Mapping[str, object]) -> CursorResult[Any]:
        async with autocommit(self._engine) as connection:
            return await connection.execute(text(sql), values)


class PostgresLimitsStore(_Statements):
    async def get(self, tenant: str) -> TenantLimits | None:
        row = (await self._run(GET, {"tenant": tenant})).one_or_none()
        return TenantLimits(**row._mapping) if row else None

    async def put(
        self, tenant: str, limits: TenantLimits, changed: Collection[str]
    ) -> TenantLimits:
        """Stores the limits, or only the `changed` fields where the tenant has limits; all that
        it has then."""
        changes = "".join(f", {name} = excluded.{name}" for name in changed)
        values = {"tenant": tenant, **vars(limits)}
        row = (await self._run(PUT.format(changes=changes), values)).one()
        return TenantLimits(**row._mapping)

    async def delete(self, tenant: str) -> None:
        await self._run(DELETE, {"tenant": tenant})


class PostgresBucketStore(_Statements):
    """Without a `clock` the database's own is used."""

    def __init__(self, engine: AsyncEngine, clock: Callable[[], datetime] | None = None) -> None:
        super().__init__(engine)
        self._clock = clock

    async def draw(self, tenant: str, limits: TenantLimits, wanted: int) -> DrawnTokens:
        """Up to `wanted` whole tokens of what has been refilled by now."""
        values = {
            "tenant": tenant,
            "wanted": wanted,
            "burst": float(limits.burst),
            "rate": limits.requests_per_s,
            "now": self._clock() if self._clock else None,
        }
        row = (await self._run(DRAW, values)).one()
        return DrawnTokens(int(row.granted), float(row.tokens))


class PostgresSlotStore(_Statements):
    """The slots of one replica."""

    def __init__(self, engine: AsyncEngine, replica: UUID) -> None:
        super().__init__(engine)
        self._replica = replica

    async def take(self, tenant: str, wanted: int, total: int, lease_s: float) -> int:
        """Takes up to `wanted` more; the slots held then."""
        values = {"tenant": tenant, "wanted": wanted, "total": total, "lease_s": lease_s}
        return int((await self._run(TAKE, {**values, "replica": self._replica})).scalar_one())

    async def keep(self, tenant: str, slots: int) -> None:
        """Gives back all but `slots`."""
        await self._run(KEEP, {"tenant": tenant, "slots": slots, "replica": self._replica})

    async def renew(self, lease_s: float) -> dict[str, int]:
        """Prolongs every lease of the replica; its slots by tenant."""
        rows = await self._run(RENEW, {"lease_s": lease_s, "replica": self._replica})
        return {row.tenant: row.slots for row in rows}
