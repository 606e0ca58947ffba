"""Tools in PostgreSQL."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from tool_registry.models import ToolSpec, ToolVersion
from tool_registry.store_engine import bump_catalogue

PLATFORM = ""
ReadSpec = Callable[[bytes], ToolSpec]

CATALOGUE_VERSION = text("SELECT version FROM catalogue_version")
FIND_DIGEST = text("SELECT * FROM tools WHERE owner = :owner AND name = :name AND digest = :digest")
INSERT = text(
    """
    INSERT INTO tools (owner, name, version, spec, digest, created_by)
    SELECT :owner, :name, COALESCE(max(version), 0) + 1, :spec, :digest, :created_by
    FROM tools WHERE owner = :owner AND name = :name
    RETURNING *
    """
)
REVIVE = text(
    "UPDATE tools SET deprecate_time = NULL"
    " WHERE owner = :owner AND name = :name AND digest = :digest"
)
OWNERS_OF_NAME = text("SELECT DISTINCT owner FROM tools WHERE name = :name")
DEPRECATE = text(
    """
    UPDATE tools SET deprecate_time = clock_timestamp()
    WHERE owner = :owner AND name = :name AND (:version = 0 OR version = :version)
      AND deprecate_time IS NULL
    RETURNING *
    """
)
VISIBLE = text("SELECT * FROM tools WHERE owner IN (:tenant, '') ORDER BY name, version")


class ToolStore:
    """Versions of tools; a spec is read back by the function it is given."""

    def __init__(self, engine: AsyncEngine, read_spec: ReadSpec) -> None:
        self._engine = engine
        self._read_spec = read_spec

    async def catalogue_version(self) -> int:
        """A number that changes with every change of tools and policies."""
        async with self._engine.connect() as connection:
            return int((await connection.execute(CATALOGUE_VERSION)).scalar_one())

    async def register(
        self, owner: str, spec: ToolSpec, digest: str, created_by: str
    ) -> tuple[ToolVersion, bool]:
        """The version of the spec, and whether it is new."""
        values = {"owner": owner, "name": spec.name, "digest": digest}
        async with self._engine.begin() as connection:
            # The bump locks the catalogue, so two registrations never take one version.
            await bump_catalogue(connection)
            known = (await connection.execute(FIND_DIGEST, values)).one_or_none()
            if known is not None:
                await connection.execute(REVIVE, values)
                return self._version_of(known), False
            row = await connection.execute(
                INSERT, values | {"spec": spec.wire, "created_by": created_by}
            )
            return self._version_of(row.one()), True

    async def owners(self, name: str) -> set[str]:
        """Who has a tool of that name; the platform is empty."""
        async with self._engine.connect() as connection:
            return {row.owner for row in await connection.execute(OWNERS_OF_NAME, {"name": name})}

    async def deprecate(self, owner: str, name: str, version: int) -> list[ToolVersion]:
        """Takes versions out of new toolsets; the ones that were not out yet."""
        values = {"owner": owner, "name": name, "version": version}
        async with self._engine.begin() as connection:
            await bump_catalogue(connection)
            rows = (await connection.execute(DEPRECATE, values)).all()
        return [self._version_of(row) for row in rows]

    async def visible(self, tenant: str) -> list[ToolVersion]:
        """Every version the tenant can see, by name and version."""
        async with self._engine.connect() as connection:
            rows = (await connection.execute(VISIBLE, {"tenant": tenant})).all()
        return [self._version_of(row) for row in rows]

    def _version_of(self, row: Any) -> ToolVersion:
        return ToolVersion(
            owner=row.owner,
            version=row.version,
            spec=self._read_spec(row.spec),
            digest=row.digest,
            create_time=row.create_time,
            created_by=row.created_by,
            deprecate_time=row.deprecate_time,
        )
