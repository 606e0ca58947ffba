from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from podium_kit.postgres.engine import autocommit, transaction
from tool_registry.errors import BindingNotFound, PolicyNotFound, TooManyBindings
from tool_registry.models import Binding
from tool_registry.policies.presets import PRESETS
from tool_registry.store_versions import bump_catalogue

BINDINGS_MAX = 1000
OF_TENANT = text("SELECT * FROM policy_bindings WHERE tenant = :tenant")
EXISTS = text("SELECT 1 FROM policies WHERE tenant = :tenant AND name = :policy LIMIT 1")
COUNT = text("SELECT count(*) FROM policy_bindings WHERE tenant = :tenant")
FIND = text(
    """
    SELECT * FROM policy_bindings
    WHERE tenant = :tenant AND policy = :policy AND principal = :principal
    """
)
INSERT = text(
    """
    INSERT INTO policy_bindings (tenant, principal, policy, created_by)
    VALUES (:tenant, :principal, :policy, :created_by) RETURNING *
    """
)
DELETE = text(
    """
    DELETE FROM policy_bindings
    WHERE tenant = :tenant AND policy = :policy AND principal = :principal RETURNING *
    """
)


class BindingStore:
    """Each change counts as one of the catalogue, which holds the bindings."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def of_tenant(self, tenant: str) -> list[Binding]:
        async with autocommit(self._engine) as connection:
            rows = await connection.execute(OF_TENANT, {"tenant": tenant})
            return [_binding_of(row) for row in rows]

    async def bind(self, tenant: str, policy: str, principal: str, created_by: str) -> Binding:
        """The binding, as it was made first. Raises PolicyNotFound, TooManyBindings."""
        values = {"tenant": tenant, "policy": policy, "principal": principal}
        async with transaction(self._engine) as connection:
            # Writers take turns, so the policy is not deleted meanwhile.
            await bump_catalogue(connection)
            if known := (await connection.execute(FIND, values)).one_or_none():
                return _binding_of(known)
            if policy not in PRESETS and (await connection.execute(EXISTS, values)).first() is None:
                raise PolicyNotFound(policy)
            if (await connection.execute(COUNT, values)).scalar_one() >= BINDINGS_MAX:
                raise TooManyBindings(BINDINGS_MAX)
            new = values | {"created_by": created_by}
            return _binding_of((await connection.execute(INSERT, new)).one())

    async def unbind(self, tenant: str, policy: str, principal: str) -> Binding:
        values = {"tenant": tenant, "policy": policy, "principal": principal}
        async with transaction(self._engine) as connection:
            await bump_catalogue(connection)
            row = (await connection.execute(DELETE, values)).one_or_none()
        if row is None:
            raise BindingNotFound(policy, principal)
        return _binding_of(row)


def _binding_of(row: Any) -> Binding:
    return Binding(row.principal, row.policy, row.create_time, row.created_by)
