from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from uuid_utils import uuid7

from cost_ledger.errors import NoSuchPrice, PriceUsed
from cost_ledger.prices.components import PriceComponent, TokenBand, WeeklyHours
from cost_ledger.prices.models import HistoryKey, PriceHistory, PriceVersion
from cost_ledger.prices.specs import (
    Placement,
    PriceChange,
    PriceKey,
    PriceSpec,
    StoredVersion,
    place,
)
from cost_ledger.store_engine import parsed, tenant_transaction, to_json
from podium_kit.metering import Dimension
from podium_kit.postgres.engine import autocommit

COLUMNS = """
    v.id, v.tenant, v.sku, v.service_class, v.region, v.currency, v.source, v.create_time,
    lower(p.valid) AS start_time, upper(p.valid) AS end_time, p.end_is_given,
    (SELECT json_agg(c ORDER BY c.ordinal)::text
     FROM price_component c WHERE c.price_version_id = v.id) AS components
"""

# Authors are few and their changes depend on each other; readers are not held up.
LOCK = text("SELECT pg_advisory_xact_lock(hashtext('price_version'))")

# Of every version what was known last: also a corrected one may price an open hold.
BY_KEYS = text(f"""
    SELECT asked.tenant AS asked_tenant, {COLUMNS}, p.is_known
    FROM json_to_recordset(CAST(:keys AS json)) AS asked(tenant text, sku text)
    JOIN price_version v ON v.sku = asked.sku AND v.tenant IN ('', asked.tenant)
    CROSS JOIN LATERAL (
        SELECT known.*, CASE WHEN CAST(:known_at AS timestamptz) IS NULL
            THEN upper_inf(known.recorded) ELSE known.recorded @> :known_at END AS is_known
        FROM price_validity known
        WHERE known.price_version_id = v.id
          AND lower(known.recorded) <= coalesce(CAST(:known_at AS timestamptz), 'infinity')
        ORDER BY lower(known.recorded) DESC LIMIT 1
    ) p
    ORDER BY v.id
""")  # noqa: S608  the columns are the constant above

PAGE = text(f"""
    SELECT {COLUMNS} FROM price_version v
    JOIN price_validity p ON p.price_version_id = v.id AND CASE
        WHEN CAST(:known_at AS timestamptz) IS NULL THEN upper_inf(p.recorded)
        ELSE p.recorded @> :known_at END
    WHERE v.tenant IN ('', :tenant) AND starts_with(v.sku, :prefix)
      AND (v.sku, v.id) > (:after_sku, :after_id)
    ORDER BY v.sku, v.id LIMIT :limit
""")  # noqa: S608  the columns are the constant above

CLOSE_RECORD = text("""
    UPDATE price_validity SET recorded = tstzrange(lower(recorded), :now)
    WHERE price_version_id = :id AND upper_inf(recorded)
""")

ADD_VALIDITY = text("""
    INSERT INTO price_validity (price_version_id, tenant, sku, service_class, region, valid,
                                end_is_given, recorded)
    SELECT id, tenant, sku, service_class, region, tstzrange(:start_time, :end_time),
           :end_is_given, tstzrange(:now, NULL)
    FROM price_version WHERE id = :id
""")

ADD_VERSION = text("""
    INSERT INTO price_version (id, tenant, sku, service_class, region, currency, source,
                               create_time)
    VALUES (:id, :tenant, :sku, :service_class, :region, :currency, :source, :now)
""")

REVISION = text("SELECT revision FROM price_revision")

ADD_COMPONENTS = text("""
    INSERT INTO price_component
    SELECT * FROM json_populate_recordset(NULL::price_component, CAST(:components AS json))
""")


class PriceStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def create(self, specs: list[PriceSpec], validate_only: bool) -> list[Placement]:
        tenants = (spec.key.tenant for spec in specs)
        async with tenant_transaction(self._engine, *tenants) as connection:
            await connection.execute(LOCK)
            placements = []
            for batch in _rounds(specs):
                placements += await _place(connection, batch)
            if validate_only:
                await connection.rollback()
        return placements

    async def page(
        self,
        tenant: str,
        sku_prefix: str,
        after: tuple[str, str],
        limit: int,
        known_at: datetime | None,
    ) -> list[PriceVersion]:
        """List prices and the tenant's own, by SKU and id, as known at a time (None: now)."""
        values = {
            "tenant": tenant,
            "prefix": sku_prefix,
            "limit": limit,
            "after_sku": after[0],
            "after_id": after[1],
            "known_at": known_at,
        }
        async with tenant_transaction(self._engine, tenant) as connection:
            rows = (await connection.execute(PAGE, values)).all()
        return [version_of(row) for row in rows]

    async def histories(
        self, keys: Iterable[HistoryKey], known_at: datetime | None = None
    ) -> dict[HistoryKey, PriceHistory]:
        """An unknown SKU has no history."""
        wanted = set(keys)
        known: defaultdict[HistoryKey, list[PriceVersion]] = defaultdict(list)
        retired: defaultdict[HistoryKey, list[PriceVersion]] = defaultdict(list)
        tenants = (tenant for tenant, _ in wanted)
        async with tenant_transaction(self._engine, *tenants) as connection:
            for row in await _rows(connection, wanted, known_at):
                versions = known if row.is_known else retired
                versions[row.asked_tenant, row.sku].append(version_of(row))
        return {key: PriceHistory(tuple(known[key]), tuple(retired[key])) for key in wanted}

    async def revision(self) -> int:
        async with autocommit(self._engine) as connection:
            return int((await connection.execute(REVISION)).scalar_one())


async def _rows(
    connection: AsyncConnection, keys: set[HistoryKey], known_at: datetime | None = None
) -> Iterable[Any]:
    asked = to_json({"tenant": tenant, "sku": sku} for tenant, sku in keys)
    return (await connection.execute(BY_KEYS, {"keys": asked, "known_at": known_at})).all()


def _rounds(specs: Sequence[PriceSpec]) -> Iterator[list[PriceSpec]]:
    """The specs in their order; those of a round have different keys."""
    batch: dict[PriceKey, PriceSpec] = {}
    for spec in specs:
        if spec.key in batch:
            yield list(batch.values())
            batch = {}
        batch[spec.key] = spec
    yield list(batch.values())


async def _place(connection: AsyncConnection, specs: Sequence[PriceSpec]) -> list[Placement]:
    """Places prices of different keys."""
    stored: defaultdict[PriceKey, list[StoredVersion]] = defaultdict(list)
    for row in await _rows(connection, {(spec.key.tenant, spec.key.sku) for spec in specs}):
        # A tenant's own prices come with the list prices, which are another key's.
        if row.is_known and row.tenant == row.asked_tenant:
            key = PriceKey(row.tenant, row.sku, row.service_class, row.region)
            stored[key].append(StoredVersion(version_of(row), row.end_is_given))
    # Not the transaction's time: what is placed before in it must have been known earlier.
    now: datetime = (await connection.execute(text("SELECT ledger_clock()"))).scalar_one()
    placements = [place(spec, stored[spec.key], str(uuid7()), now) for spec in specs]
    changed = [each for each in placements if each.change is not PriceChange.UNCHANGED]
    if changed:
        await _store(connection, changed, now)
    return placements


async def _store(
    connection: AsyncConnection, placements: Sequence[Placement], now: datetime
) -> None:
    replaced = [{"id": each.before.id, "now": now} for each in placements if each.before]
    if replaced:
        await connection.execute(CLOSE_RECORD, replaced)
    versions = [each.version for each in placements]
    await connection.execute(
        ADD_VERSION,
        [
            {
                "id": version.id,
                "tenant": version.tenant,
                "sku": version.sku,
                "service_class": version.service_class,
                "region": version.region,
                "currency": version.currency_code,
                "source": version.source,
                "now": now,
            }
            for version in versions
        ],
    )
    shortened = [
        _validity(each.shortened, now, end_is_given=False) for each in placements if each.shortened
    ]
    added = [_validity(each.version, now, each.end_is_given) for each in placements]
    await connection.execute(ADD_VALIDITY, [*shortened, *added])
    rows = to_json(
        _component_row(version.id, *each)
        for version in versions
        for each in enumerate(version.components)
    )
    await connection.execute(ADD_COMPONENTS, {"components": rows})


async def _close_record(connection: AsyncConnection, version_id: str, now: datetime) -> None:
    """Ends the recorded knowledge of the version's validity."""
    await connection.execute(CLOSE_RECORD, {"id": version_id, "now": now})


def _validity(version: PriceVersion, now: datetime, end_is_given: bool) -> dict[str, Any]:
    return {
        "id": version.id,
        "start_time": version.start_time,
        "end_time": version.end_time,
        "end_is_given": end_is_given,
        "now": now,
    }


def _component_row(version_id: str, ordinal: int, component: PriceComponent) -> dict[str, Any]:
    hours = component.hours
    return {
        "price_version_id": version_id,
        "ordinal": ordinal,
        "dimension": component.dimension,
        "unit_price": component.unit_price,
        "per": component.per,
        "from_tokens": component.band.from_tokens,
        "until_tokens": component.band.until_tokens,
        "weekdays": sorted(hours.weekdays) if hours else None,
        "start_minute": hours.start_minute if hours else None,
        "end_minute": hours.end_minute if hours else None,
    }


def _component(row: dict[str, Any]) -> PriceComponent:
    weekdays = row["weekdays"]
    return PriceComponent(
        dimension=Dimension(row["dimension"]),
        unit_price=row["unit_price"],
        per=row["per"],
        band=TokenBand(int(row["from_tokens"]), _integer(row["until_tokens"])),
        hours=(
            WeeklyHours(frozenset(weekdays), row["start_minute"], row["end_minute"])
            if weekdays
            else None
        ),
    )


def _integer(number: int | None) -> int | None:
    return None if number is None else int(number)


def version_of(row: Any) -> PriceVersion:
    components = parsed(row.components)
    return PriceVersion(
        id=row.id,
        tenant=row.tenant,
        sku=row.sku,
        currency_code=row.currency,
        components=tuple(_component(each) for each in components),
        start_time=row.start_time,
        end_time=row.end_time,
        source=row.source,
        create_time=row.create_time,
        service_class=row.service_class,
        region=row.region,
    )


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
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def find(self, tenants: Sequence[str], ids: Sequence[str]) -> list[PriceVersion]:
        async with tenant_transaction(self._engine, *tenants) as connection:
            return await _found(connection, ids)

    async def delete(self, tenants: Sequence[str], ids: Sequence[str]) -> list[PriceVersion]:
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
    await _close_record(connection, version.id, now)
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
    await _close_record(connection, ended.id, now)
    longer = replace(version_of(ended), end_time=end)
    await connection.execute(ADD_VALIDITY, _validity(longer, now, end_is_given=False))
