from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from podium_kit.postgres.engine import autocommit, transaction
from tool_registry.models import PLATFORM, Activation, PolicySpec, PolicyVersion
from tool_registry.store_versions import bump_catalogue

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
# The platform's come last: of two of one name it is theirs that is found.
OF_TENANT = text(
    """
    SELECT * FROM policies WHERE tenant IN (:tenant, :platform)
    ORDER BY tenant = :platform, name, version
    """
)
# Of two for the same moment the later word holds.
ACTIVATIONS = text(
    "SELECT * FROM policy_activations WHERE tenant = :tenant ORDER BY effective_time, sequence"
)
ACTIVATE = text(
    """
    INSERT INTO policy_activations (tenant, name, version, effective_time, created_by)
    VALUES (:tenant, :name, :version, :effective_time, :created_by)
    """
)
SCHEDULED = text(
    """
    SELECT coalesce(bool_or(effective_time <= :until), false) AS begun,
        min(effective_time) FILTER (WHERE effective_time > :until) AS following
    FROM policy_activations WHERE effective_time > :since
    """
)
# Only once: a row that is in use is not written again.
NOTE_USE = text(
    """
    UPDATE policies SET use_time = clock_timestamp()
    WHERE tenant = :tenant AND name = :name AND version = :version AND use_time IS NULL
    """
)
EXISTS = text(
    "SELECT 1 FROM policies WHERE tenant = :tenant AND name = :name AND version = :version"
)
TO_DELETE = text(
    """
    SELECT p.*, a.effective_time, EXISTS (
        SELECT FROM policy_bindings WHERE tenant = p.tenant AND policy = p.name
    ) AS binds FROM policies p LEFT JOIN LATERAL (
        SELECT min(effective_time) AS effective_time FROM policy_activations
        WHERE tenant = p.tenant AND name = p.name AND version = p.version
    ) a ON true
    WHERE p.tenant = :tenant AND p.name = :name AND (:version = 0 OR p.version = :version)
    ORDER BY p.version FOR UPDATE OF p
    """
)
DELETE = text(
    """
    DELETE FROM policies
    WHERE tenant = :tenant AND name = :name AND (:version = 0 OR version = :version)
    """
)


@dataclass(frozen=True)
class PolicyUse:
    """The first use of a version, and the time from which it is a default; None: never. With it,
    whether its policy is bound to anybody.
    """

    policy: PolicyVersion
    use_time: datetime | None
    effective_time: datetime | None
    binds: bool


class PolicyStore:
    def __init__(self, engine: AsyncEngine, read_spec: ReadSpec) -> None:
        self._engine = engine
        self._read_spec = read_spec

    async def create(
        self, tenant: str, spec: PolicySpec, digest: str, created_by: str, validate_only: bool
    ) -> tuple[PolicyVersion, bool]:
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
        async with autocommit(self._engine) as connection:
            values = {"tenant": tenant, "platform": PLATFORM}
            rows = (await connection.execute(OF_TENANT, values)).all()
        return [self._version_of(row) for row in rows]

    async def activations(self, tenant: str) -> list[Activation]:
        async with autocommit(self._engine) as connection:
            rows = (await connection.execute(ACTIVATIONS, {"tenant": tenant})).all()
        return [
            Activation(
                row.sequence,
                row.name,
                row.version,
                row.effective_time,
                row.create_time,
                row.created_by,
            )
            for row in rows
        ]

    async def activate(
        self, tenant: str, policy: PolicyVersion, effective_time: datetime, created_by: str
    ) -> None:
        values = {
            "tenant": tenant,
            "name": policy.spec.name,
            "version": policy.version,
            "effective_time": effective_time,
            "created_by": created_by,
        }
        async with transaction(self._engine) as connection:
            await bump_catalogue(connection)
            await connection.execute(ACTIVATE, values)

    async def announce_activations(self, since: datetime, until: datetime) -> datetime | None:
        """Announces a change if a policy became a default between the two; returns when the next
        one does.
        """
        async with autocommit(self._engine) as connection:
            scheduled = (
                await connection.execute(SCHEDULED, {"since": since, "until": until})
            ).one()
        if scheduled.begun:
            async with transaction(self._engine) as connection:
                await bump_catalogue(connection)
        following: datetime | None = scheduled.following
        return following

    async def note_use(self, tenant: str, name: str, version: int) -> bool:
        """Returns whether the version exists; from now on it cannot be deleted."""
        values = {"tenant": tenant, "name": name, "version": version}
        async with transaction(self._engine) as connection:
            if (await connection.execute(NOTE_USE, values)).rowcount:
                return True
            return (await connection.execute(EXISTS, values)).first() is not None

    async def delete(
        self, tenant: str, name: str, version: int, check: Callable[[PolicyUse], None]
    ) -> list[PolicyVersion]:
        """Deletes the versions that pass the check, which raises; 0 means all. Oldest first."""
        values = {"tenant": tenant, "name": name, "version": version}
        async with transaction(self._engine) as connection:
            await bump_catalogue(connection)
            rows = (await connection.execute(TO_DELETE, values)).all()
            found = [self._version_of(row) for row in rows]
            for policy, row in zip(found, rows, strict=True):
                check(PolicyUse(policy, row.use_time, row.effective_time, row.binds))
            await connection.execute(DELETE, values)
        return found

    def _version_of(self, row: Any) -> PolicyVersion:
        return PolicyVersion(
            version=row.version,
            spec=self._read_spec(row.spec),
            digest=row.digest,
            create_time=row.create_time,
            created_by=row.created_by,
        )
