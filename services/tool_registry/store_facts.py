"""Measured behaviour of tools in PostgreSQL: the latest report of every adapters process.

Facts belong to whoever owns the tool: those of a shared tool help every tenant, those
of a tenant's own tool are nobody else's business. A process measures tenant by tenant,
so what it saw of a shared tool under one tenant must not replace what it saw under another.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from money import Money
from tool_registry.models import PLATFORM, Facts, Report, Source
from tool_registry.store_engine import bump_facts, transaction

RECORD = text(
    """
    INSERT INTO tool_facts (owner, tool_name, model_alias, reporter, tenant, sample_count,
                            latency_p50_s, latency_p95_s, success_rate, mean_cost, currency,
                            report_time)
    VALUES (:owner, :tool_name, :model_alias, :reporter, :tenant, :sample_count,
            :latency_p50_s, :latency_p95_s, :success_rate, :mean_cost, :currency, :report_time)
    ON CONFLICT (owner, tool_name, model_alias, reporter, tenant) DO UPDATE SET
        sample_count = excluded.sample_count, latency_p50_s = excluded.latency_p50_s,
        latency_p95_s = excluded.latency_p95_s, success_rate = excluded.success_rate,
        mean_cost = excluded.mean_cost, currency = excluded.currency,
        report_time = excluded.report_time
    """
)
FORGET = text("DELETE FROM tool_facts WHERE report_time < :oldest")
REPORTS = text(
    """
    SELECT * FROM tool_facts WHERE owner IN (:tenant, :platform) AND report_time >= :oldest
    ORDER BY tool_name, model_alias
    """
)


class FactsStore:
    """Reports by process, tool and model."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def record(
        self, source: Source, reports: Sequence[tuple[str, Facts]], now: datetime, oldest: datetime
    ) -> None:
        """Replaces what the source reported of the same tools; `reports` name the owners."""
        values = [_values(source, owner, entry, now) for owner, entry in reports]
        async with transaction(self._engine) as connection:
            # First, so that two reports never wait for each other's rows.
            await bump_facts(connection)
            await connection.execute(FORGET, {"oldest": oldest})
            if values:
                await connection.execute(RECORD, values)

    async def reports(self, tenant: str, oldest: datetime) -> list[Report]:
        """What processes said of the tenant's and the shared tools since `oldest`."""
        values = {"tenant": tenant, "platform": PLATFORM, "oldest": oldest}
        async with transaction(self._engine) as connection:
            return [_report(row) for row in await connection.execute(REPORTS, values)]


def _values(source: Source, owner: str, facts: Facts, now: datetime) -> dict[str, object]:
    cost = facts.mean_cost
    return {
        **vars(facts),
        **vars(source),
        "owner": owner,
        "mean_cost": cost and cost.amount,
        "currency": cost and cost.currency_code,
        "report_time": now,
    }


def _report(row: Any) -> Report:
    cost = None if row.mean_cost is None else Money(row.mean_cost, row.currency)
    facts = Facts(
        row.tool_name,
        row.model_alias,
        row.sample_count,
        row.latency_p50_s,
        row.latency_p95_s,
        row.success_rate,
        cost,
    )
    return Report(facts, row.report_time)
