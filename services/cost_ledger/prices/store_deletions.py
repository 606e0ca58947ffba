"""Taking back price versions that nothing used: the book stops knowing them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from cost_ledger.errors import NoSuchPrice, PriceUsed
from cost_ledger.prices.models import PriceVersion
from cost_ledger.prices.store import COLUMNS, LOCK, add_validity, close_record, version_of
from cost_ledger.store_engine import tenant_transaction

KNOWN = text(f"""
    SELECT {COLUMNS} FROM price_version v
    JOIN price_validity p ON p.price_version_id = v.id AND upper_inf(p.recorded)
    WHERE v.id = ANY(CAST(:ids AS text[])) ORDER BY v.sku, v.id
""")  # noqa: S608  the columns are a constant
USED = text("SELECT price_is_used(:id, :known_since)")
# What a version ended when it came, and so holds on without it.
ENDED_BY = text(f"""
    SELECT {COLUMNS} FROM price_version v
    JOIN price_validity p ON p.price_version_id = v.id AND upper_inf(p.recorded)
    WHERE v.tenant = :tenant AND v.sku = :sku AND v.service_class = :service_class
      AND v.region = :region AND upper(p.valid) = :start_time AND NOT p.end_is_given
""")  # noqa: S608  the columns are a constant
NEXT_START = text("""
    SELECT min(lower(valid)) FROM price_validity
    WHERE tenant = :tenant AND sku = :sku AND service_class = :service_class
      AND region = :region AND upper_inf(recorded) AND lower(valid) > :start_time
""")


class PriceDeletion:
    """Deletes versions in one transaction."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def find(self, tenants: Sequence[str], ids: Sequence[str]) -> list[PriceVersion]:
        """Those of the tenants that the book knows now. Raises NoSuchPrice."""
        async with tenant_transaction(self._engine, *tenants) as connection:
            return await _found(connection, ids)

    async def delete(self, tenants: Sequence[str], ids: Sequence[str]) -> list[PriceVersion]:
        """All of them or none. Raises NoSuchPrice, PriceUsed."""
        async with tenant_transaction(self._engine, *tenants) as connection:
            await connection.execute(LOCK)
            found = await _found(connection, ids)
            for version in found:
                values = {"id": version.id, "known_since": version.create_time}
                if (await connection.execute(USED, values)).scalar_one():
                    raise PriceUsed(version.id, version.sku)
            for version in found:
                await _take_back(connection, version)
        return found


async def _found(connection: AsyncConnection, ids: Sequence[str]) -> list[PriceVersion]:
    rows = (await connection.execute(KNOWN, {"ids": list(ids)})).all()
    known = {row.id for row in rows}
    for each in ids:
        if each not in known:
            raise NoSuchPrice(each)
    return [version_of(row) for row in rows]


async def _take_back(connection: AsyncConnection, version: PriceVersion) -> None:
    now: datetime = (await connection.execute(text("SELECT ledger_clock()"))).scalar_one()
    await close_record(connection, version.id, now)
    if version.start_time is None:
        return
    values = {
        "tenant": version.tenant,
        "sku": version.sku,
        "service_class": version.service_class,
        "region": version.region,
        "start_time": version.start_time,
    }
    ended = (await connection.execute(ENDED_BY, values)).one_or_none()
    if ended is None:
        return
    end = (await connection.execute(NEXT_START, values)).scalar_one()
    await close_record(connection, ended.id, now)
    longer = replace(version_of(ended), end_time=end)
    await add_validity(connection, longer, now, end_is_given=False)
