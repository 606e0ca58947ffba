"""Price versions in PostgreSQL: added under one lock, looked up by tenant and SKU."""

import json
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from uuid_utils import uuid7

from cost_ledger.price_book import CreatedPrices, PriceKey
from cost_ledger.price_specs import Placement, PriceSpec, StoredVersion, place
from cost_ledger.pricing import PriceComponent, PriceHistory, PriceVersion
from cost_ledger.store_engine import database_errors
from cost_ledger.store_rows import moment, to_json
from metering import Dimension

COLUMNS = """
    v.id, v.tenant, v.sku, v.currency, lower(v.validity) AS start_time,
    upper(v.validity) AS end_time, v.end_is_given, v.source, v.create_time,
    (SELECT json_agg(json_build_array(c.dimension, c.unit_price::text, c.per::text)
                     ORDER BY c.dimension)::text
     FROM price_component c WHERE c.price_version_id = v.id) AS components
"""

# Authors are few and their changes depend on each other; readers are not held up.
LOCK = text("LOCK TABLE price_version IN SHARE ROW EXCLUSIVE MODE")

BY_KEYS = text(f"""
    SELECT asked.tenant AS asked_tenant, {COLUMNS}
    FROM json_to_recordset(CAST(:keys AS json)) AS asked(tenant text, sku text)
    JOIN price_version v ON v.sku = asked.sku AND v.tenant IN ('', asked.tenant)
    ORDER BY v.id
""")  # noqa: S608  the columns are the constant above

PAGE = text(f"""
    SELECT {COLUMNS} FROM price_version v
    WHERE v.tenant IN ('', :tenant) AND starts_with(v.sku, :prefix)
      AND (v.sku, v.id) > (:after_sku, :after_id)
    ORDER BY v.sku, v.id LIMIT :limit
""")  # noqa: S608  the columns are the constant above

SHORTEN = text("""
    UPDATE price_version SET validity = tstzrange(lower(validity), :end_time) WHERE id = :id
""")

ADD_VERSION = text("""
    INSERT INTO price_version (id, tenant, sku, currency, validity, end_is_given, source,
                               create_time)
    VALUES (:id, :tenant, :sku, :currency, tstzrange(:start_time, :end_time), :end_is_given,
            :source, :create_time)
""")

ADD_COMPONENTS = text("""
    INSERT INTO price_component
    SELECT * FROM json_populate_recordset(NULL::price_component, CAST(:components AS json))
""")


class PostgresPriceStore:
    """Implements `price_book.PriceStore`."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def create(self, specs: list[PriceSpec], validate_only: bool) -> CreatedPrices:
        """Adds all specs or none. Raises PriceOverlap."""
        with database_errors():
            async with self._engine.begin() as connection:
                await connection.execute(LOCK)
                placements = [await _place(connection, spec) for spec in specs]
                if validate_only:
                    await connection.rollback()
        versions = tuple(placement.version for placement in placements)
        return CreatedPrices(versions, sum(placement.is_new for placement in placements))

    async def page(
        self, tenant: str, sku_prefix: str, after: tuple[str, str], limit: int
    ) -> list[PriceVersion]:
        """List prices and the tenant's own, by SKU and id."""
        sku, version_id = after
        values = {"tenant": tenant, "prefix": sku_prefix, "limit": limit}
        with database_errors():
            async with self._engine.connect() as connection:
                after_values = {"after_sku": sku, "after_id": version_id}
                rows = (await connection.execute(PAGE, values | after_values)).all()
        return [_version(row) for row in rows]

    async def histories(self, keys: Iterable[PriceKey]) -> dict[PriceKey, PriceHistory]:
        """Every version of every (tenant, SKU); an unknown SKU has none."""
        wanted = set(keys)
        found: defaultdict[PriceKey, list[PriceVersion]] = defaultdict(list)
        with database_errors():
            async with self._engine.connect() as connection:
                for row in await _rows(connection, wanted):
                    found[row.asked_tenant, row.sku].append(_version(row))
        return {key: PriceHistory(tuple(found[key])) for key in wanted}


async def _rows(connection: AsyncConnection, keys: set[PriceKey]) -> Iterable[Any]:
    asked = to_json({"tenant": tenant, "sku": sku} for tenant, sku in keys)
    return (await connection.execute(BY_KEYS, {"keys": asked})).all()


async def _place(connection: AsyncConnection, spec: PriceSpec) -> Placement:
    rows = await _rows(connection, {(spec.tenant, spec.sku)})
    stored = [
        StoredVersion(_version(row), row.end_is_given) for row in rows if row.tenant == spec.tenant
    ]
    now: datetime = (await connection.execute(text("SELECT now()"))).scalar_one()
    placement = place(spec, stored, str(uuid7()), now)
    if placement.is_new:
        await _store(connection, placement)
    return placement


async def _store(connection: AsyncConnection, placement: Placement) -> None:
    version, shortened = placement.version, placement.shortened
    if shortened:
        await connection.execute(SHORTEN, {"id": shortened.id, "end_time": shortened.end_time})
    await connection.execute(
        ADD_VERSION,
        {
            "id": version.id,
            "tenant": version.tenant,
            "sku": version.sku,
            "currency": version.currency_code,
            "start_time": version.start_time,
            "end_time": version.end_time,
            "end_is_given": placement.end_is_given,
            "source": version.source,
            "create_time": version.create_time,
        },
    )
    rows = to_json(_component_row(version.id, entry) for entry in version.components)
    await connection.execute(ADD_COMPONENTS, {"components": rows})


def _component_row(version_id: str, component: PriceComponent) -> dict[str, Any]:
    return {
        "price_version_id": version_id,
        "dimension": component.dimension,
        "unit_price": component.unit_price,
        "per": component.per,
    }


def _version(row: Any) -> PriceVersion:
    return PriceVersion(
        id=row.id,
        tenant=row.tenant,
        sku=row.sku,
        currency_code=row.currency,
        components=tuple(
            PriceComponent(Dimension(name), Decimal(unit_price), Decimal(per))
            for name, unit_price, per in json.loads(row.components)
        ),
        start_time=row.start_time,
        end_time=row.end_time,
        source=row.source,
        create_time=moment(row.create_time),
    )
