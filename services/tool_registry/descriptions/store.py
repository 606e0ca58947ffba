from dataclasses import asdict
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from podium_kit.postgres.engine import autocommit, transaction
from tool_registry.descriptions.models import Proposal, ProposalState

INSERT = text(
    """
    INSERT INTO description_proposals (
        id, tenant, tool_name, tool_version, model_alias, current_description,
        proposed_description, writer_tool, episode_ids, succeeded_count, state, create_time,
        created_by, reviewed_by)
    VALUES (
        CAST(:id AS uuid), :tenant, :tool_name, :tool_version, :model_alias,
        :current_description, :proposed_description, :writer_tool,
        CAST(:episode_ids AS text[]), :succeeded_count, :state, :create_time, :created_by,
        :reviewed_by)
    ON CONFLICT (id) DO NOTHING
    """
)
FIND = text("SELECT * FROM description_proposals WHERE tenant = :tenant AND id = CAST(:id AS uuid)")
# Ids are UUIDv7: their order is that of time.
LIST = text(
    """
    SELECT * FROM description_proposals
    WHERE tenant = :tenant AND (:tool_name = '' OR tool_name = :tool_name)
    ORDER BY id DESC LIMIT 500
    """
)
UPDATE = text(
    """
    UPDATE description_proposals
    SET proposed_description = :proposed_description, state = :state, reviewed_by = :reviewed_by
    WHERE tenant = :tenant AND id = CAST(:id AS uuid)
    """
)


class ProposalStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def insert(self, tenant: str, proposal: Proposal) -> Proposal | None:
        """The first proposal of the id; None where another tenant has it."""
        async with transaction(self._engine) as connection:
            await connection.execute(INSERT, _values(tenant, proposal))
        return await self.find(tenant, proposal.id)

    async def find(self, tenant: str, proposal_id: str) -> Proposal | None:
        async with autocommit(self._engine) as connection:
            row = (await connection.execute(FIND, {"tenant": tenant, "id": proposal_id})).first()
        return _proposal(row) if row else None

    async def list(self, tenant: str, tool_name: str) -> list[Proposal]:
        async with autocommit(self._engine) as connection:
            rows = await connection.execute(LIST, {"tenant": tenant, "tool_name": tool_name})
            return [_proposal(row) for row in rows]

    async def update(self, tenant: str, proposal: Proposal) -> None:
        async with transaction(self._engine) as connection:
            await connection.execute(UPDATE, _values(tenant, proposal))


def _values(tenant: str, proposal: Proposal) -> dict[str, object]:
    return {
        **asdict(proposal),
        "tenant": tenant,
        "episode_ids": list(proposal.episode_ids),
        "state": proposal.state.value,
    }


def _proposal(row: Any) -> Proposal:
    fields = {name: getattr(row, name) for name in Proposal.__dataclass_fields__}
    converted = {
        "id": str(row.id),
        "episode_ids": tuple(row.episode_ids),
        "state": ProposalState(row.state),
    }
    return Proposal(**(fields | converted))
