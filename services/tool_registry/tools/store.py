from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from podium_kit.postgres.engine import autocommit, transaction
from podium_kit.rpc.errors import AlreadyExists
from tool_registry.errors import NameAlike, NameTaken, NameTakenByTenants
from tool_registry.models import PLATFORM, ToolSpec, ToolVersion
from tool_registry.store_versions import bump_catalogue

ReadSpec = Callable[[bytes], ToolSpec]

VERSIONS = text("SELECT version, facts_version FROM catalogue_version")
FIND_DIGEST = text("SELECT * FROM tools WHERE owner = :owner AND name = :name AND digest = :digest")
INSERT = text(
    """
    INSERT INTO tools (owner, name, version, spec, digest, created_by, change)
    SELECT :owner, :name, COALESCE(max(version), 0) + 1, :spec, :digest, :created_by, :change
    FROM tools WHERE owner = :owner AND name = :name
    RETURNING *
    """
)
REVIVE = text(
    """
    UPDATE tools SET deprecate_time = NULL, delete_time = NULL, spec = :spec, change = :change
    WHERE owner = :owner AND name = :name AND digest = :digest RETURNING *
    """
)
SUPERSEDE = text(
    """
    UPDATE tools SET deprecate_time = clock_timestamp(), change = :change
    WHERE owner = :owner AND name = :name AND version > :version
        AND deprecate_time IS NULL AND delete_time IS NULL
    """
)
OTHER_OWNERS = text(
    """
    SELECT DISTINCT owner, name FROM tools
    WHERE lower(name) = lower(:name) AND (owner <> :owner OR name <> :name)
        AND (owner = :owner OR '' IN (owner, :owner)) AND spec IS NOT NULL
    """
)
# A second call changes nothing: the first moment stands.
DEPRECATE = text(
    """
    UPDATE tools SET deprecate_time = COALESCE(deprecate_time, clock_timestamp()), change = :change
    WHERE owner = :owner AND name = :name AND (:version = 0 OR version = :version)
        AND delete_time IS NULL
    RETURNING *
    """
)
DELETE = text(
    """
    UPDATE tools SET delete_time = clock_timestamp(), change = :change
    WHERE owner = :owner AND name = :name AND (:version = 0 OR version = :version)
        AND delete_time IS NULL
    RETURNING *
    """
)
# The row stays, so that its number is never given to other content.
PURGE = text(
    """
    UPDATE tools SET spec = NULL, change = :change
    WHERE delete_time < :deleted_before AND spec IS NOT NULL
    """
)
TO_PURGE = text(
    "SELECT 1 FROM tools WHERE delete_time < :deleted_before AND spec IS NOT NULL LIMIT 1"
)
CHANGED = text("SELECT * FROM tools WHERE owner = :owner AND change > :since")


@dataclass(frozen=True)
class Versions:
    """Numbers that grow with every change of tools and policies, and of measurements."""

    catalogue: int
    facts: int


@dataclass(frozen=True)
class ChangedVersion:
    """A version after a change: its content, or nothing when it was purged."""

    name: str
    version: int
    tool: ToolVersion | None


class ToolStore:
    def __init__(self, engine: AsyncEngine, read_spec: ReadSpec) -> None:
        self._engine = engine
        self._read_spec = read_spec

    async def versions(self) -> Versions:
        async with autocommit(self._engine) as connection:
            row = (await connection.execute(VERSIONS)).one()
        return Versions(row.version, row.facts_version)

    async def register(
        self, owner: str, spec: ToolSpec, digest: str, created_by: str, validate_only: bool
    ) -> tuple[ToolVersion, bool]:
        """The version of the spec, and whether it is new. Raises NameTaken.

        A version that is registered again is the newest again: where it was deprecated or
        deleted it is not any more, and later ones are deprecated.
        """
        values: dict[str, object] = {"owner": owner, "name": spec.name, "digest": digest}
        async with transaction(self._engine) as connection:
            # The bump makes writers take turns, so two never take one version or one name.
            values["change"] = await bump_catalogue(connection)
            await _check_name(connection, owner, spec.name)
            known = (await connection.execute(FIND_DIGEST, values)).one_or_none()
            if known is not None and (known.deprecate_time or known.delete_time):
                known = (await connection.execute(REVIVE, values | {"spec": spec.wire})).one()
            if known is not None:
                await connection.execute(SUPERSEDE, values | {"version": known.version})
            row = known or await self._insert(connection, values, spec, created_by)
            if validate_only:
                # Every check ran against the database; nothing is kept.
                await connection.rollback()
        return self._version_of(row), known is None

    async def deprecate(self, owner: str, name: str, version: int) -> list[ToolVersion]:
        values: dict[str, object] = {"owner": owner, "name": name, "version": version}
        async with transaction(self._engine) as connection:
            values["change"] = await bump_catalogue(connection)
            rows = (await connection.execute(DEPRECATE, values)).all()
        return [self._version_of(row) for row in rows]

    async def delete(self, owner: str, name: str, version: int) -> list[ToolVersion]:
        values: dict[str, object] = {"owner": owner, "name": name, "version": version}
        async with transaction(self._engine) as connection:
            values["change"] = await bump_catalogue(connection)
            rows = (await connection.execute(DELETE, values)).all()
        return [self._version_of(row) for row in rows]

    async def purge(self, deleted_before: datetime) -> int:
        """Removes the content of versions deleted before, and returns how many."""
        values: dict[str, object] = {"deleted_before": deleted_before}
        async with transaction(self._engine) as connection:
            if (await connection.execute(TO_PURGE, values)).first() is None:
                return 0
            values["change"] = await bump_catalogue(connection)
            return (await connection.execute(PURGE, values)).rowcount

    async def changed(self, owner: str, since: int) -> list[ChangedVersion]:
        """Every version of the owner's tools that changed after a catalogue version."""
        async with autocommit(self._engine) as connection:
            rows = await connection.execute(CHANGED, {"owner": owner, "since": since})
            return [self._changed_of(row) for row in rows]

    async def _insert(
        self,
        connection: AsyncConnection,
        values: dict[str, object],
        spec: ToolSpec,
        created_by: str,
    ) -> Any:
        new = values | {"spec": spec.wire, "created_by": created_by}
        return (await connection.execute(INSERT, new)).one()

    def _changed_of(self, row: Any) -> ChangedVersion:
        tool = None if row.spec is None else self._version_of(row)
        return ChangedVersion(row.name, row.version, tool)

    def _version_of(self, row: Any) -> ToolVersion:
        return ToolVersion(
            owner=row.owner,
            version=row.version,
            spec=self._read_spec(row.spec),
            digest=row.digest,
            create_time=row.create_time,
            created_by=row.created_by,
            deprecate_time=row.deprecate_time,
            delete_time=row.delete_time,
        )


def taken(name: str, owner: str, others: Mapping[str, str]) -> AlreadyExists | None:
    """Returns why the owner cannot have a name; `others` are similar names, by their owners.

    A name means one tool to every tenant, however it is capitalised.
    """
    if owner in others:
        return NameAlike(name, others[owner])
    if PLATFORM in others:
        return NameTaken(name)
    return NameTakenByTenants(name, len(others)) if others else None


async def _check_name(connection: AsyncConnection, owner: str, name: str) -> None:
    rows = await connection.execute(OTHER_OWNERS, {"name": name, "owner": owner})
    others = {row.owner: row.name for row in rows}
    if problem := taken(name, owner, others):
        raise problem
