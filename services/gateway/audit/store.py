"""The audit log in PostgreSQL; triggers of the migration reject to change a row."""

import builtins
from typing import Any

from sqlalchemy import JSON, Column, ColumnElement, DateTime, MetaData, Table, Text, and_
from sqlalchemy.dialects.postgresql import UUID
from sqlalchemy.ext.asyncio import AsyncEngine

from gateway.audit.models import AuditEntry, AuditFilter, AuditRecord, Json
from podium_kit.postgres.engine import autocommit

METADATA = MetaData()
ENTRIES = Table(
    "audit_entry",
    METADATA,
    Column("id", UUID(as_uuid=False), primary_key=True),
    *(
        Column(name, Text, nullable=False)
        for name in ("tenant", "subject", "credential", "action", "resource", "request_id")
    ),
    Column("requested", JSON, nullable=False),
    Column("before", JSON(none_as_null=True)),
    Column("time", DateTime(timezone=True)),
)
OUTCOMES = Table(
    "audit_outcome",
    METADATA,
    Column("entry_id", UUID(as_uuid=False), primary_key=True),
    Column("rejection", Text, nullable=False),
    Column("after", JSON(none_as_null=True)),
)


class PostgresAuditStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def begin(self, entry: AuditEntry) -> None:
        async with autocommit(self._engine) as connection:
            await connection.execute(ENTRIES.insert().values(vars(entry)))

    async def finish(self, entry_id: str, rejection: str, after: Json | None) -> None:
        values = {"entry_id": entry_id, "rejection": rejection, "after": after}
        async with autocommit(self._engine) as connection:
            await connection.execute(OUTCOMES.insert().values(values))

    async def list(
        self, tenant: str, keep: AuditFilter, before_id: str, limit: int
    ) -> builtins.list[AuditRecord]:
        """The tenant's entries before an id ("" for the newest), newest first."""
        joined = ENTRIES.outerjoin(OUTCOMES, OUTCOMES.c.entry_id == ENTRIES.c.id)
        query = (
            joined.select()
            .with_only_columns(*ENTRIES.c, OUTCOMES.c.rejection, OUTCOMES.c.after)
            .where(_kept(tenant, keep, before_id))
            .order_by(ENTRIES.c.id.desc())
            .limit(limit)
        )
        async with autocommit(self._engine) as connection:
            rows = await connection.execute(query)
            return [AuditRecord(**row._mapping) for row in rows]


def _kept(tenant: str, keep: AuditFilter, before_id: str) -> ColumnElement[bool]:
    conditions: builtins.list[Any] = [ENTRIES.c.tenant == tenant]
    for name in ("subject", "action", "resource"):
        if value := getattr(keep, name):
            conditions.append(ENTRIES.c[name] == value)
    if keep.since:
        conditions.append(ENTRIES.c.time >= keep.since)
    if keep.until:
        conditions.append(ENTRIES.c.time < keep.until)
    if before_id:
        conditions.append(ENTRIES.c.id < before_id)
    return and_(*conditions)
