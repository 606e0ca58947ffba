"""Measured behaviour of tools in PostgreSQL: the latest report of every adapters process.

Facts belong to the owner of the tool: those of a shared tool help every tenant, those
of a tenant's own tool are visible to that tenant only. A process measures per tenant,
so what it saw of a shared tool under one tenant must not replace what it saw under another.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from podium_kit.postgres.engine import transaction
from tool_registry.models import PLATFORM, Facts, FactsReport, FactsSource
from tool_registry.store_versions import bump_facts

RECORD = text(
    """
    INSERT INTO tool_facts (owner, tool_name, model_alias, reporter, tenant, facts, report_time)
    VALUES (:owner, :tool_name, :model_alias, :reporter, :tenant, :facts, :report_time)
    ON CONFLICT (owner, tool_name, model_alias, reporter, tenant) DO UPDATE SET
        facts = excluded.facts, report_time = excluded.report_time
    """
)
FORGET = text("DELETE FROM tool_facts WHERE report_time < :oldest")
# What a newer report of any process replaces.
SUPERSEDE = text(
    """
    DELETE FROM tool_facts
    WHERE owner = :owner AND tool_name = :tool_name AND model_alias = :model_alias
      AND report_time < :superseded
    """
)
REPORTS = text(
    """
    SELECT facts, tenant, report_time FROM tool_facts
    WHERE owner IN (:tenant, :platform) AND report_time >= :oldest
    ORDER BY tool_name, model_alias
    """
)


@dataclass(frozen=True)
class FactsFormat:
    """The stored form of the facts of a report, by the report's time."""

    write: Callable[[Facts, datetime], bytes]
    read: Callable[[bytes, datetime], Facts]


@dataclass(frozen=True)
class Kept:
    beside_newer: timedelta
    """While other processes report of the same tool."""
    unless_called: timedelta
    """While nobody does."""


class FactsStore:
    def __init__(self, engine: AsyncEngine, stored_as: FactsFormat) -> None:
        self._engine = engine
        self._stored_as = stored_as

    async def record(
        self, source: FactsSource, reports: Sequence[tuple[str, Facts]], now: datetime, kept: Kept
    ) -> None:
        """Replaces what the source reported of the same tools; `reports` name the owners."""
        values = [self._values(source, owner, entry, now) for owner, entry in reports]
        async with transaction(self._engine) as connection:
            # First, so that two reports never wait for each other's rows.
            await bump_facts(connection)
            await connection.execute(FORGET, {"oldest": now - kept.unless_called})
            if values:
                await connection.execute(RECORD, values)
                superseded = now - kept.beside_newer
                subjects = [_subject(owner, each, superseded) for owner, each in reports]
                await connection.execute(SUPERSEDE, subjects)

    async def reports(self, tenant: str, oldest: datetime) -> list[FactsReport]:
        values = {"tenant": tenant, "platform": PLATFORM, "oldest": oldest}
        async with transaction(self._engine) as connection:
            rows = await connection.execute(REPORTS, values)
            return [
                FactsReport(
                    self._stored_as.read(row.facts, row.report_time), row.tenant, row.report_time
                )
                for row in rows
            ]

    def _values(
        self, source: FactsSource, owner: str, facts: Facts, now: datetime
    ) -> dict[str, object]:
        return {
            **vars(source),
            "owner": owner,
            "tool_name": facts.tool_name,
            "model_alias": facts.model_alias,
            "facts": self._stored_as.write(facts, now),
            "report_time": now,
        }


def _subject(owner: str, facts: Facts, superseded: datetime) -> dict[str, object]:
    return {
        "owner": owner,
        "tool_name": facts.tool_name,
        "model_alias": facts.model_alias,
        "superseded": superseded,
    }
