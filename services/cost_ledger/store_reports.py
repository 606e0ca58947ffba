"""Reads of the journal: entries, open and overdue holds, sums of spending."""

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from cost_ledger.models import Entry
from cost_ledger.reports import EntryFilter, Report, SpendDimension, SpendRow
from cost_ledger.store_engine import tenant_transaction
from cost_ledger.store_rows import entry_from_row
from metering import Dimension, Quantity
from money import Money

OPEN_HOLD_KEYS = text("""
    SELECT key FROM hold WHERE tenant = :tenant AND episode_id = :episode_id AND state = 'open'
    ORDER BY create_time, key
""")

OVERDUE_HOLDS = text("SELECT tenant, key FROM overdue_holds(:limit)")

ENTRIES = """
    SELECT row_to_json(entry)::text AS entry FROM entry
    WHERE tenant = :tenant AND sequence > :after {of_episode}
      AND (:any_kind OR kind = ANY(CAST(:kinds AS text[])))
    ORDER BY sequence LIMIT :limit
"""
# Names the partial index's condition, or it could not be used.
OF_EPISODE = "AND episode_id = :episode_id AND episode_id <> ''"

GROUP_COLUMNS = {
    SpendDimension.DAY: "to_char(occur_time AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
    SpendDimension.MODEL: "model",
    SpendDimension.TOOL: "tool",
    SpendDimension.EPISODE: "episode_id",
    SpendDimension.USER: "user_id",
}

# A correction is the opposite of a whole line, so it takes calls and quantities away too.
SPEND = """
    WITH line AS (
        SELECT ARRAY[{columns}]::text[] AS names, quantities,
               CASE WHEN unit <> 'XXX' THEN spend + provisional END AS amount,
               CASE WHEN unit <> 'XXX' THEN unit END AS currency,
               CASE WHEN kind IN ('reverse', 'settle') THEN -1
                    WHEN kind = 'adjust' THEN 0 ELSE 1 END AS sign
        FROM entry
        WHERE tenant = :tenant AND unit <> ''
          AND (CAST(:start_time AS timestamptz) IS NULL OR occur_time >= :start_time)
          AND occur_time < :end_time {of_episode}
    ), money AS (
        SELECT names, json_object_agg(currency, amount ORDER BY currency)::text AS amounts,
               max(amount) AS dearest
        FROM (
            SELECT names, currency, sum(amount) AS amount FROM line
            WHERE currency IS NOT NULL GROUP BY names, currency
        ) per_currency GROUP BY names
    ), counts AS (
        SELECT names, sum(sign) AS calls,
               coalesce(sum(sign) FILTER (WHERE amount IS NULL), 0) AS unpriced_calls
        FROM line GROUP BY names
    ), page AS (
        SELECT names, amounts, calls, unpriced_calls, dearest
        FROM counts LEFT JOIN money USING (names)
        ORDER BY dearest DESC NULLS LAST, names LIMIT :limit OFFSET :offset
    ), used AS (
        SELECT names, json_object_agg(dimension, amount)::text AS quantities
        FROM (
            SELECT names, q.key AS dimension, sum(line.sign * q.value::numeric) AS amount
            FROM line JOIN page USING (names) CROSS JOIN LATERAL jsonb_each_text(quantities) q
            GROUP BY names, q.key
        ) per_dimension GROUP BY names
    )
    SELECT names, amounts, calls, unpriced_calls, quantities
    FROM page LEFT JOIN used USING (names)
    ORDER BY dearest DESC NULLS LAST, names
"""


class ReportStore:
    """Queries that lock nothing."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def open_hold_keys(self, tenant: str, episode_id: str) -> list[str]:
        """Keys of the episode's open holds, oldest first."""
        rows = await self._all(OPEN_HOLD_KEYS, tenant=tenant, episode_id=episode_id)
        return [row.key for row in rows]

    async def overdue_holds(self, limit: int) -> list[tuple[str, str]]:
        """(tenant, key) of open holds whose time is over, longest overdue first."""
        async with tenant_transaction(self._engine) as connection:
            rows = await connection.execute(OVERDUE_HOLDS, {"limit": limit})
            return [(row.tenant, row.key) for row in rows]

    async def entries(self, tenant: str, wanted: EntryFilter) -> list[Entry]:
        """A page of the journal, oldest first."""
        rows = await self._all(
            text(ENTRIES.format(of_episode=OF_EPISODE if wanted.episode_id else "")),
            tenant=tenant,
            **_of_episode(wanted.episode_id),
            after=wanted.after_sequence,
            any_kind=not wanted.kinds,
            kinds=[kind.value for kind in wanted.kinds],
            limit=wanted.limit,
        )
        return [entry_from_row(json.loads(row.entry, parse_float=Decimal)) for row in rows]

    async def spend(self, tenant: str, report: Report) -> list[SpendRow]:
        """A page of sums, dearest first."""
        of_episode = OF_EPISODE if report.episode_id else ""
        columns = ", ".join(GROUP_COLUMNS[dimension] for dimension in report.group_by)
        rows = await self._all(
            text(SPEND.format(columns=columns, of_episode=of_episode)),
            tenant=tenant,
            start_time=report.start_time,
            end_time=report.end_time,
            **_of_episode(report.episode_id),
            limit=report.limit,
            offset=report.offset,
        )
        return [_spend_row(row) for row in rows]

    async def _all(self, statement: Any, tenant: str, **values: object) -> Sequence[Any]:
        async with tenant_transaction(self._engine, tenant) as connection:
            return (await connection.execute(statement, {"tenant": tenant, **values})).all()


def _of_episode(episode_id: str) -> dict[str, str]:
    return {"episode_id": episode_id} if episode_id else {}


def _spend_row(row: Any) -> SpendRow:
    return SpendRow(
        values=tuple(row.names),
        amounts=tuple(Money(amount, code) for code, amount in _decimals(row.amounts).items()),
        call_count=int(row.calls),
        unpriced_call_count=int(row.unpriced_calls),
        quantities=_quantities(_decimals(row.quantities)),
    )


def _quantities(sums: dict[str, Decimal]) -> tuple[Quantity, ...]:
    return tuple(Quantity(name, sums[name]) for name in Dimension if sums.get(name))


def _decimals(text_or_none: str | None) -> dict[str, Decimal]:
    if text_or_none is None:
        return {}
    parsed: dict[str, Decimal] = json.loads(text_or_none, parse_float=Decimal, parse_int=Decimal)
    return parsed
