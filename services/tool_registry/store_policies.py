"""Policies in PostgreSQL."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from tool_registry.models import PolicySpec, PolicyVersion
from tool_registry.store_engine import bump_catalogue, transaction

ReadSpec = Callable[[bytes], PolicySpec]

FIND_DIGEST = text(
    "SELECT * FROM policies WHERE tenant = :tenant AND name = :name AND digest = :digest"
)
INSERT = text(
    """
    INSERT INTO policies (tenant, name, version, spec, digest, created_by)
    SELECT :tenant, :name, COALESCE(max(version), 0) + 1, :spec, :digest, :created_by
    FROM policies WHERE tenant = :tenant AND name = :name
    RETURNING *
    """
)
OF_TENANT = text("SELECT * FROM policies WHERE tenant = :tenant ORDER BY name, version")
ACTIVE = text("SELECT name, version FROM active_policies WHERE tenant = :tenant")
ACTIVATE = text(
    """
    INSERT INTO active_policies (tenant, name, version) VALUES (:tenant, :name, :version)
    ON CONFLICT (tenant) DO UPDATE SET name = :name, version = :version
    """
)


class PolicyStore:
    """Versions of policies, and which one is each tenant's default."""

    def __init__(self, engine: AsyncEngine, read_spec: ReadSpec) -> None:
        self._engine = engine
        self._read_spec = read_spec

    async def create(
        self, tenant: str, spec: PolicySpec, digest: str, created_by: str, validate_only: bool
    ) -> tuple[PolicyVersion, bool]:
        """The version of the spec, and whether it is new."""
        values = {"tenant": tenant, "name": spec.name, "digest": digest}
        async with transaction(self._engine) as connection:
            await bump_catalogue(connection)
            known = (await connection.execute(FIND_DIGEST, values)).one_or_none()
            new = values | {"spec": spec.wire, "created_by": created_by}
            row = known or (await connection.execute(INSERT, new)).one()
            if validate_only:
                # Everything was done for real, and is taken back.
                await connection.rollback()
        return self._version_of(row), known is None

    async def of_tenant(self, tenant: str) -> list[PolicyVersion]:
        """Every version, by name and version."""
        async with transaction(self._engine) as connection:
            rows = (await connection.execute(OF_TENANT, {"tenant": tenant})).all()
        return [self._version_of(row) for row in rows]

    async def active(self, tenant: str) -> tuple[str, int] | None:
        """Name and version of the tenant's default, if it chose one."""
        async with transaction(self._engine) as connection:
            row = (await connection.execute(ACTIVE, {"tenant": tenant})).one_or_none()
        return (row.name, row.version) if row else None

    async def activate(self, tenant: str, name: str, version: int) -> None:
        """Makes a version the tenant's default."""
        values = {"tenant": tenant, "name": name, "version": version}
        async with transaction(self._engine) as connection:
            await bump_catalogue(connection)
            await connection.execute(ACTIVATE, values)

    def _version_of(self, row: Any) -> PolicyVersion:
        return PolicyVersion(
            version=row.version,
            spec=self._read_spec(row.spec),
            digest=row.digest,
            create_time=row.create_time,
            created_by=row.created_by,
        )
