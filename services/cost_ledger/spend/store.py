from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal
from functools import cache, reduce
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import TextClause, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY, TEXT
from sqlalchemy.ext.asyncio import AsyncEngine

from cost_ledger.spend.models import SpendDimension, SpendReport, SpendRow
from cost_ledger.store_engine import journal_errors, tenant_transaction
from podium_kit.metering import Dimension
from podium_kit.postgres.engine import autocommit

JOURNAL_COLUMNS = {
    SpendDimension.DAY: "to_char(occur_time AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
    SpendDimension.HOUR: "to_char(occur_time AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:00\"Z\"')",
    SpendDimension.WEEK: "to_char(date_trunc('week', occur_time AT TIME ZONE 'UTC'), 'YYYY-MM-DD')",
    SpendDimension.MODEL: "model",
    SpendDimension.TOOL: "tool",
    SpendDimension.EPISODE: "episode_id",
    SpendDimension.USER: "user_id",
    SpendDimension.TEAM: "team",
    SpendDimension.PRICE_VERSION: "price_version_id",
}
SUM_COLUMNS = JOURNAL_COLUMNS | {
    SpendDimension.DAY: "day::text",
    SpendDimension.WEEK: "to_char(date_trunc('week', day), 'YYYY-MM-DD')",
}
PLATFORM_COLUMNS = {
    **{name: name.value for name in JOURNAL_COLUMNS},
    SpendDimension.TENANT: "tenant",
}
DIMENSIONS = list(Dimension)
AMOUNTS = "currency, amount, calls, unpriced_calls"
# As exact as the database's sums.
WIDE = Context(prec=200)
# Of the sums, which have a column for each dimension; of an entry (sign() of an integer is a
# float); of none, for the platform.
SUMMED = ", ".join(DIMENSIONS)
USED = ", ".join(
    f"sign(calls::numeric) * (quantities->>'{name}')::numeric AS {name}" for name in DIMENSIONS
)
UNKNOWN = ", ".join(f"NULL::numeric AS {name}" for name in DIMENSIONS)
# Names the partial index's condition, or it could not be used.
OF_EPISODE = "AND episode_id = :episode_id AND episode_id <> ''"

# The constants have column names in them, and the arguments of these are bound.
FROM_JOURNAL = f"""
    SELECT ARRAY[{{names}}]::text[] AS names, {AMOUNTS}, {USED}
    FROM charge WHERE tenant = :tenant {{of_episode}}
      AND (CAST(:start_time AS timestamptz) IS NULL OR occur_time >= :start_time)
      AND (CAST(:end_time AS timestamptz) IS NULL OR occur_time < :end_time)
"""  # noqa: S608
FROM_SUMS = f"""
    SELECT ARRAY[{{names}}]::text[] AS names, {AMOUNTS}, {SUMMED}
    FROM rollup_day WHERE tenant = :tenant {{whole_days}}
"""  # noqa: S608
# Up to the watermark, so that a report is of one state of the journal.
FROM_EDGE = f"""
    UNION ALL SELECT ARRAY[{{names}}]::text[], {AMOUNTS}, {USED}
    FROM charge
    WHERE tenant = :tenant AND occur_time >= :{{edge}}_from AND occur_time < :{{edge}}_until
      AND sequence <= (SELECT sequence FROM rollup_watermark WHERE tenant = :tenant)
"""  # noqa: S608
FROM_PLATFORM = f"""
    SELECT ARRAY[{{names}}]::text[] AS names, {AMOUNTS}, {UNKNOWN}
    FROM platform_spend(:first_day, :end_day, :by_tenant, :by_day, :by_model, :by_tool,
                        :by_price_version)
"""  # noqa: S608

# A row per group and currency, the groups by their largest amount. Nothing is joined or made
# an array of: for hundreds of groups either costs several times the sums themselves.
PAGE = f"""
    WITH line AS ({{lines}}), summed AS (
        SELECT names, currency, sum(amount) AS amount, sum(calls)::bigint AS calls,
               sum(unpriced_calls)::bigint AS unpriced_calls,
               {", ".join(f"sum({name}) AS {name}" for name in DIMENSIONS)}
        FROM line GROUP BY names, currency
    ), compared AS (
        SELECT *, max(amount) FILTER (WHERE currency <> '') OVER (PARTITION BY names) AS largest
        FROM summed
    ), placed AS (
        SELECT *, dense_rank() OVER (ORDER BY largest DESC NULLS LAST, names) AS place
        FROM compared
    )
    SELECT names, currency, trim_scale(amount)::text AS amount, calls, unpriced_calls,
           {", ".join(f"nullif({name}, 0)::text AS {name}" for name in DIMENSIONS)}
    FROM placed
    WHERE place > :offset AND place <= :offset + :limit ORDER BY place, currency
"""  # noqa: S608
# Enough that a step costs little beyond its rows, few enough that a report, which waits for
# its tenant's step to end, never waits for long.
ENTRIES_PER_STEP = 5_000
TENANTS_PER_STEP = 200


class SpendStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def spend(self, tenant: str, report: SpendReport) -> list[SpendRow]:
        """A page of the tenant's sums, most expensive first, from the daily sums where possible."""
        read = _from_sums if report.from_sums else _from_journal
        lines, values = read(report)
        return await self._page(tenant, lines, values | {"tenant": tenant}, report)

    async def platform_spend(self, tenant: str, report: SpendReport) -> list[SpendRow]:
        """A page of every tenant's sums; `tenant` is the caller's."""
        lines = FROM_PLATFORM.format(names=_columns(PLATFORM_COLUMNS, report))
        groups = {f"by_{name}": name in report.group_by for name in PLATFORM_COLUMNS}
        asked = {name: groups[name] for name in groups if f":{name}" in FROM_PLATFORM}
        values = {"first_day": report.first_day, "end_day": report.end_day, **asked}
        return await self._page(tenant, lines, values, report)

    async def _page(
        self, tenant: str, lines: str, values: dict[str, Any], report: SpendReport
    ) -> list[SpendRow]:
        page = {"limit": report.limit, "offset": report.offset}
        async with tenant_transaction(self._engine, tenant) as connection:
            rows = await connection.execute(_statement(lines), values | page)
            groups = groupby(rows, key=itemgetter(0))
            return [_spend_row(list(of_group)) for _, of_group in groups]


@cache  # parsed once; there are as many as ways to group and to end
def _statement(lines: str) -> TextClause:
    return text(PAGE.format(lines=lines))


def _from_journal(report: SpendReport) -> tuple[str, dict[str, Any]]:
    lines = FROM_JOURNAL.format(
        names=_columns(JOURNAL_COLUMNS, report),
        of_episode=OF_EPISODE if report.episode_id else "",
    )
    values = {"start_time": report.start_time, "end_time": report.end_time}
    return lines, values | ({"episode_id": report.episode_id} if report.episode_id else {})


def _from_sums(report: SpendReport) -> tuple[str, dict[str, Any]]:
    whole_days, bounds = _whole_days(report)
    edges, spans = _edges(report)
    lines = FROM_SUMS.format(names=_columns(SUM_COLUMNS, report), whole_days=whole_days)
    return lines + edges, bounds | spans


def _columns(columns: dict[SpendDimension, str], report: SpendReport) -> str:
    return ", ".join(columns[dimension] for dimension in report.group_by)


def _whole_days(report: SpendReport) -> tuple[str, dict[str, date]]:
    conditions, values = "", {}
    if report.first_day:
        conditions, values["first_day"] = "AND day >= :first_day", report.first_day
    if report.end_day:
        conditions += " AND day < :end_day"
        values["end_day"] = report.end_day
    return conditions, values


def _edges(report: SpendReport) -> tuple[str, dict[str, datetime]]:
    spans: dict[str, tuple[datetime, datetime]] = {}
    start, end = report.start_time, report.end_time
    first, after = report.first_day, report.end_day
    if start and end and first and after and first > after:
        spans["inside"] = (start, end)
    else:
        if start and first and start < _start_of(first):
            spans["before"] = (start, _start_of(first))
        if end and after and _start_of(after) < end:
            spans["after"] = (_start_of(after), end)
    names = _columns(JOURNAL_COLUMNS, report)
    sql = "".join(FROM_EDGE.format(names=names, edge=edge) for edge in spans)
    values = {f"{edge}_from": span[0] for edge, span in spans.items()}
    return sql, values | {f"{edge}_until": span[1] for edge, span in spans.items()}


def _start_of(day: date) -> datetime:
    return datetime.combine(day, time(), tzinfo=UTC)


def _spend_row(rows: list[Any]) -> SpendRow:
    names, _, _, calls, unpriced_calls, *used = rows[0] if len(rows) == 1 else _in_all(rows)
    return SpendRow(
        values=names,
        amounts={row[1]: row[2] for row in rows if row[1]},
        call_count=calls,
        unpriced_call_count=unpriced_calls,
        quantities={
            # Corrections reduce quantities, too.
            dimension: amount.removeprefix("-")
            for dimension, amount in zip(DIMENSIONS, used, strict=True)
            if amount
        },
    )


def _in_all(rows: list[Any]) -> list[Any]:
    names, _, _, calls, unpriced_calls, *used = zip(*rows, strict=True)
    return [names[0], "", None, sum(calls), sum(unpriced_calls), *map(_sum, used)]


def _sum(amounts: tuple[str | None, ...]) -> str:
    total = reduce(WIDE.add, map(Decimal, filter(None, amounts)), Decimal(0))
    return f"{total:f}" if total else ""


BEHIND = text("SELECT tenants_behind() AS tenant")
# A transaction of one statement, whose scope is there before the function looks at a row.
ROLL_UP = text(
    """
    WITH scope AS MATERIALIZED (
        SELECT set_scope(:tenants, true) AS tenants
    )
    SELECT roll_up(scope.tenants, :count_max) FROM scope
    """
).bindparams(bindparam("tenants", type_=ARRAY(TEXT)))


class RollupStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def advance(self) -> int:
        """Adds what is new for every tenant, and returns how many entries that were."""
        async with autocommit(self._engine) as connection:
            tenants = (await connection.execute(BEHIND)).scalars().all()
        starts = range(0, len(tenants), TENANTS_PER_STEP)
        return sum([await self.advance_of(tenants[at : at + TENANTS_PER_STEP]) for at in starts])

    async def advance_of(self, tenants: Sequence[str]) -> int:
        """Adds what is new for these tenants, and returns how many entries that were."""
        total = 0
        while added := await self._step(tenants):
            total += added
            if added < ENTRIES_PER_STEP:
                break  # the step had room left, so these tenants are done
        return total

    async def _step(self, tenants: Sequence[str]) -> int:
        asked = {"tenants": sorted(set(tenants)), "count_max": ENTRIES_PER_STEP}
        with journal_errors():
            async with autocommit(self._engine) as connection:
                return int((await connection.execute(ROLL_UP, asked)).scalar_one())


class SpendReports:
    """Answers reports as if the whole journal was read."""

    def __init__(self, store: SpendStore, rollups: RollupStore) -> None:
        self._store = store
        self._rollups = rollups

    async def page(self, tenant: str, report: SpendReport) -> list[SpendRow]:
        # The sums come first: reading what they lack from the journal would cost more.
        if report.all_tenants:
            await self._rollups.advance()
            return await self._store.platform_spend(tenant, report)
        if report.from_sums:
            await self._rollups.advance_of([tenant])
        return await self._store.spend(tenant, report)
