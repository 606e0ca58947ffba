"""Stages of learning, and the models that they promoted."""

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from podium_kit.postgres.engine import autocommit, transaction
from tool_registry.errors import PolicyNotFound
from tool_registry.models import LearningStage, LearningStep
from tool_registry.store_versions import bump_catalogue

STEPS_MAX = 5_000
EXISTS = text("SELECT 1 FROM policies WHERE tenant = :tenant AND name = :policy LIMIT 1")
FIND = text(
    """
    SELECT * FROM learning_steps
    WHERE tenant = :tenant AND policy = :policy AND cycle = CAST(:cycle AS uuid) AND stage = :stage
    """
)
INSERT = text(
    """
    INSERT INTO learning_steps (tenant, policy, cycle, stage, model, summary, facts, created_by)
    VALUES (
        :tenant, :policy, CAST(:cycle AS uuid), :stage, :model, :summary, CAST(:facts AS jsonb),
        :created_by
    )
    RETURNING *
    """
)
# Those that say which model answers stay, however old.
FORGET = text(
    """
    DELETE FROM learning_steps WHERE tenant = :tenant AND policy = :policy
    AND stage NOT IN ('promoted', 'rolled_back') AND sequence < (
        SELECT sequence FROM learning_steps WHERE tenant = :tenant AND policy = :policy
        ORDER BY sequence DESC OFFSET :kept LIMIT 1
    )
    """
)
LIST = text(
    """
    SELECT * FROM learning_steps WHERE tenant = :tenant AND policy = :policy
    AND sequence < :before ORDER BY sequence DESC LIMIT :size
    """
)
SERVED = text(
    """
    SELECT DISTINCT ON (policy) policy, model FROM learning_steps
    WHERE tenant = :tenant AND stage IN ('promoted', 'rolled_back')
    ORDER BY policy, sequence DESC
    """
)


class LearningStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def record(self, tenant: str, step: LearningStep) -> LearningStep:
        """The step, as its cycle recorded it first. Raises PolicyNotFound."""
        values = {
            "tenant": tenant,
            "policy": step.policy,
            "cycle": step.cycle,
            "stage": step.stage.value,
            "model": step.model,
            "summary": step.summary,
            "facts": json.dumps(dict(step.facts)),
            "created_by": step.created_by,
        }
        async with transaction(self._engine) as connection:
            # Writers take turns, and readers of the catalogue see the model that answers.
            await bump_catalogue(connection)
            if known := (await connection.execute(FIND, values)).one_or_none():
                return _step_of(known)
            if (await connection.execute(EXISTS, values)).first() is None:
                raise PolicyNotFound(step.policy)
            recorded = (await connection.execute(INSERT, values)).one()
            await connection.execute(FORGET, values | {"kept": STEPS_MAX - 1})
        return _step_of(recorded)

    async def page(self, tenant: str, policy: str, before: int, size: int) -> list[LearningStep]:
        """Newest first, those recorded before a sequence number."""
        values = {"tenant": tenant, "policy": policy, "before": before, "size": size}
        async with autocommit(self._engine) as connection:
            return [_step_of(row) for row in await connection.execute(LIST, values)]

    async def served(self, tenant: str) -> Mapping[str, str]:
        """The promoted models by policy; "" means the platform's default."""
        async with autocommit(self._engine) as connection:
            rows = await connection.execute(SERVED, {"tenant": tenant})
            return {row.policy: row.model for row in rows}


def _step_of(row: Any) -> LearningStep:
    return LearningStep(
        policy=row.policy,
        cycle=str(row.cycle),
        stage=LearningStage(row.stage),
        model=row.model,
        summary=row.summary,
        facts=row.facts,
        create_time=row.create_time,
        created_by=row.created_by,
        sequence=row.sequence,
    )
