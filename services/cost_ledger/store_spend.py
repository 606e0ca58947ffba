"""Spend reports: whole days from the daily sums, the rest from the journal, in one snapshot.

The journal is read for what the sums do not know: entries after the watermark, parts of
days, and groups by episode, user or team.
"""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from cost_ledger.reports import Report, SpendDimension, SpendRow
from cost_ledger.store_engine import tenant_transaction
from metering import Dimension, Quantity
from money import Money

JOURNAL_COLUMNS = {
    SpendDimension.DAY: "to_char(occur_time AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
    SpendDimension.MODEL: "model",
    SpendDimension.TOOL: "tool",
    SpendDimension.EPISODE: "episode_id",
    SpendDimension.USER: "user_id",
    SpendDimension.TEAM: "team",
    SpendDimension.PRICE_VERSION: "price_version_id",
}
SUM_COLUMNS = JOURNAL_COLUMNS | {SpendDimension.DAY: "day::text"}
PLATFORM_COLUMNS = {
    **{name: name.value for name in JOURNAL_COLUMNS},
    SpendDimension.TENANT: "tenant",
}
DIMENSIONS = [dimension.value for dimension in Dimension]
# Names the partial index's condition, or it could not be used.
OF_EPISODE = "AND episode_id = :episode_id AND episode_id <> ''"

# Everything from the journal.
FROM_JOURNAL = """
    line AS (
        SELECT ARRAY[{journal_columns}]::text[] AS names, currency, amount, calls,
               unpriced_calls, quantities
        FROM charge WHERE tenant = :tenant {of_episode}
          AND (CAST(:start_time AS timestamptz) IS NULL OR occur_time >= :start_time)
          AND (CAST(:end_time AS timestamptz) IS NULL OR occur_time < :end_time)
    ), used_line AS (
        SELECT names, q.key AS dimension, sign(calls) * q.value::numeric AS amount
        FROM line CROSS JOIN LATERAL jsonb_each_text(quantities) q
    )
"""

# The sums of whole days; from the journal the parts of days before and after them, and
# what came after the watermark.
FROM_SUMS = """
    mark AS MATERIALIZED (
        SELECT coalesce((SELECT sequence FROM rollup_watermark WHERE tenant = :tenant), 0)
            AS sequence
    ), recent AS MATERIALIZED (
        SELECT ARRAY[{journal_columns}]::text[] AS names, currency, amount, calls,
               unpriced_calls, quantities
        FROM charge
        WHERE tenant = :tenant AND sequence > (SELECT sequence FROM mark)
          AND (CAST(:start_time AS timestamptz) IS NULL OR occur_time >= :start_time)
          AND (CAST(:end_time AS timestamptz) IS NULL OR occur_time < :end_time)
        {edges}
    ), line AS (
        SELECT names, currency, amount, calls, unpriced_calls FROM recent
        UNION ALL
        SELECT ARRAY[{sum_columns}]::text[], currency, amount, calls, unpriced_calls
        FROM rollup_day WHERE tenant = :tenant {whole_days}
    ), used_line AS (
        SELECT names, q.key AS dimension, sign(calls) * q.value::numeric AS amount
        FROM recent CROSS JOIN LATERAL jsonb_each_text(quantities) q
        UNION ALL
        SELECT ARRAY[{sum_columns}]::text[], dimension, amount
        FROM rollup_day_usage WHERE tenant = :tenant {whole_days}
    )
"""
EDGE = """
        UNION ALL
        SELECT ARRAY[{journal_columns}]::text[], currency, amount, calls, unpriced_calls,
               quantities
        FROM charge
        WHERE tenant = :tenant AND sequence <= (SELECT sequence FROM mark)
          AND occur_time >= :{edge}_from AND occur_time < :{edge}_until
"""

FROM_PLATFORM = """
    line AS (
        SELECT ARRAY[{platform_columns}]::text[] AS names, currency, amount, calls,
               unpriced_calls
        FROM platform_spend(:first_day, :end_day, :by_tenant, :by_day, :by_model, :by_tool,
                            :by_price_version)
    ), used_line AS (
        SELECT ARRAY[]::text[] AS names, ''::text AS dimension, 0::numeric AS amount LIMIT 0
    )
"""

PAGE = """
    WITH {lines}, money AS (
        SELECT names, json_object_agg(currency, amount::text ORDER BY currency)::text AS amounts,
               max(amount) AS dearest
        FROM (
            SELECT names, currency, sum(amount) AS amount FROM line
            WHERE currency <> '' GROUP BY names, currency
        ) per_currency GROUP BY names
    ), counts AS (
        SELECT names, sum(calls) AS calls, sum(unpriced_calls) AS unpriced_calls
        FROM line GROUP BY names
    ), page AS (
        SELECT names, amounts, calls, unpriced_calls, dearest
        FROM counts LEFT JOIN money USING (names)
        ORDER BY dearest DESC NULLS LAST, names LIMIT :limit OFFSET :offset
    ), used AS (
        SELECT names, json_object_agg(dimension, amount::text)::text AS quantities
        FROM (
            SELECT names, dimension, sum(amount) AS amount FROM used_line JOIN page USING (names)
            GROUP BY names, dimension
        ) per_dimension GROUP BY names
    )
    SELECT names, amounts, calls, unpriced_calls, quantities FROM page LEFT JOIN used USING (names)
    ORDER BY dearest DESC NULLS LAST, names
"""


class SpendStore:
    """Sums that lock nothing."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def spend(self, tenant: str, report: Report) -> list[SpendRow]:
        """A page of the tenant's sums, dearest first."""
        journal = _columns(JOURNAL_COLUMNS, report)
        values: dict[str, Any] = {
            "tenant": tenant,
            "start_time": report.start_time,
            "end_time": report.end_time,
        }
        if report.from_sums:
            edges, more = _edges(report, journal)
            whole_days, bounds = _whole_days(report)
            lines = FROM_SUMS.format(
                journal_columns=journal,
                sum_columns=_columns(SUM_COLUMNS, report),
                edges=edges,
                whole_days=whole_days,
            )
            values |= more | bounds
        else:
            of_episode = OF_EPISODE if report.episode_id else ""
            lines = FROM_JOURNAL.format(journal_columns=journal, of_episode=of_episode)
            values |= {"episode_id": report.episode_id} if report.episode_id else {}
        return await self._page(tenant, lines, values, report)

    async def platform_spend(self, tenant: str, report: Report) -> list[SpendRow]:
        """A page of every tenant's sums; `tenant` is the caller's."""
        lines = FROM_PLATFORM.format(platform_columns=_columns(PLATFORM_COLUMNS, report))
        groups = {f"by_{name}": name in report.group_by for name in PLATFORM_COLUMNS}
        asked = {name: groups[name] for name in groups if f":{name}" in FROM_PLATFORM}
        values = {"first_day": report.first_day, "end_day": report.end_day, **asked}
        return await self._page(tenant, lines, values, report)

    async def _page(
        self, tenant: str, lines: str, values: dict[str, Any], report: Report
    ) -> list[SpendRow]:
        page = {"limit": report.limit, "offset": report.offset}
        async with tenant_transaction(self._engine, tenant) as connection:
            rows = await connection.execute(text(PAGE.format(lines=lines)), values | page)
            return [_spend_row(row) for row in rows]


def _columns(columns: dict[SpendDimension, str], report: Report) -> str:
    return ", ".join(columns[dimension] for dimension in report.group_by)


def _whole_days(report: Report) -> tuple[str, dict[str, date]]:
    conditions, values = "", {}
    if report.first_day:
        conditions, values["first_day"] = "AND day >= :first_day", report.first_day
    if report.end_day:
        conditions += " AND day < :end_day"
        values["end_day"] = report.end_day
    return conditions, values


def _edges(report: Report, columns: str) -> tuple[str, dict[str, datetime]]:
    """Parts of days that the journal must be asked for, up to the watermark."""
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
    sql = "".join(EDGE.format(journal_columns=columns, edge=edge) for edge in spans)
    values = {f"{edge}_from": span[0] for edge, span in spans.items()}
    return sql, values | {f"{edge}_until": span[1] for edge, span in spans.items()}


def _start_of(day: date) -> datetime:
    return datetime.combine(day, time(), tzinfo=UTC)


def _spend_row(row: Any) -> SpendRow:
    sums = _decimals(row.quantities)
    return SpendRow(
        values=tuple(row.names),
        amounts=tuple(Money(amount, code) for code, amount in _decimals(row.amounts).items()),
        call_count=int(row.calls),
        unpriced_call_count=int(row.unpriced_calls),
        quantities=tuple(
            Quantity(Dimension(name), sums[name])
            for name in sorted(sums, key=DIMENSIONS.index)
            if sums[name]
        ),
    )


def _decimals(texts: str | None) -> dict[str, Decimal]:
    parsed: dict[str, str] = json.loads(texts) if texts else {}
    return {name: Decimal(text) for name, text in parsed.items()}
