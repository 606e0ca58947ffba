"""Verdicts on credited episodes: columns of episode_facts, which are deleted with the episode."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from podium_kit.postgres.engine import autocommit

# Part of the transaction that stores feedback. A check's verdict outweighs what users say.
RECORD_FEEDBACK = text(
    """
    UPDATE episode_facts SET verdict = :score, verdict_time = clock_timestamp()
    WHERE id = CAST(:episode_id AS uuid) AND credited <> '{}' AND score IS NULL
    """
)
NEWEST = text(
    """
    SELECT id, group_id, credited, verdict FROM episode_facts
    WHERE tenant = :tenant AND verdict IS NOT NULL
    ORDER BY verdict_time DESC LIMIT :limit
    """
)
TASKS = text("SELECT id, task FROM episode_facts WHERE id = ANY(CAST(:ids AS uuid[]))")


@dataclass(frozen=True)
class Verified:
    """A verified episode, the tools credited with its answer and the answer's score."""

    episode_id: str
    group_id: str
    tools: frozenset[str]
    score: float


class CompetenceStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def newest(self, tenant: str, limit: int) -> list[Verified]:
        """Returns the episodes with the newest verdicts, the newest first."""
        async with autocommit(self._engine) as connection:
            rows = await connection.execute(NEWEST, {"tenant": tenant, "limit": limit})
            return [
                Verified(str(row.id), row.group_id, frozenset(row.credited), row.verdict)
                for row in rows
            ]

    async def tasks(self, episode_ids: Collection[str]) -> dict[str, str]:
        """Returns the beginnings of the episodes' tasks."""
        async with autocommit(self._engine) as connection:
            rows = await connection.execute(TASKS, {"ids": list(episode_ids)})
            return {str(row.id): row.task for row in rows}
