"""Measured behaviour of tools in PostgreSQL: the latest report of every adapters process."""

from collections.abc import Sequence

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from tool_registry.models import Facts

RECORD = text(
    """
    INSERT INTO tool_facts (reporter, tenant, tool_name, model_alias, sample_count,
                            latency_p50_s, latency_p95_s, success_rate)
    SELECT :reporter, :tenant, * FROM unnest(
        CAST(:names AS text[]), CAST(:models AS text[]), CAST(:counts AS bigint[]),
        CAST(:p50 AS double precision[]), CAST(:p95 AS double precision[]),
        CAST(:success AS double precision[])
    )
    ON CONFLICT (reporter, tenant, tool_name, model_alias) DO UPDATE SET
        sample_count = excluded.sample_count, latency_p50_s = excluded.latency_p50_s,
        latency_p95_s = excluded.latency_p95_s, success_rate = excluded.success_rate,
        report_time = clock_timestamp()
    """
)
# Weighted by samples. A mean of quantiles is no quantile, but it is close for like processes.
MERGED = text(
    """
    SELECT tool_name, model_alias, sum(sample_count) AS samples,
           sum(latency_p50_s * sample_count) / sum(sample_count) AS p50,
           sum(latency_p95_s * sample_count) / sum(sample_count) AS p95,
           sum(success_rate * sample_count) / sum(sample_count) AS success
    FROM tool_facts
    WHERE tenant IN (:tenant, '') AND sample_count > 0
      AND report_time > now() - interval '10 minutes'
    GROUP BY tool_name, model_alias ORDER BY tool_name, model_alias
    """
)


class FactsStore:
    """Reports by process; read merged over all of them."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def record(self, reporter: str, tenant: str, facts: Sequence[Facts]) -> None:
        """Replaces what the process reported before."""
        values = {
            "reporter": reporter,
            "tenant": tenant,
            "names": [entry.tool_name for entry in facts],
            "models": [entry.model_alias for entry in facts],
            "counts": [entry.sample_count for entry in facts],
            "p50": [entry.latency_p50_s for entry in facts],
            "p95": [entry.latency_p95_s for entry in facts],
            "success": [entry.success_rate for entry in facts],
        }
        async with self._engine.begin() as connection:
            await connection.execute(RECORD, values)

    async def merged(self, tenant: str) -> list[Facts]:
        """What the tenant's and the platform's tools did in the last ten minutes."""
        async with self._engine.connect() as connection:
            rows = (await connection.execute(MERGED, {"tenant": tenant})).all()
        return [
            Facts(row.tool_name, row.model_alias, int(row.samples), row.p50, row.p95, row.success)
            for row in rows
        ]
