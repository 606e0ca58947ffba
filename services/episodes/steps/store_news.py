"""What is new in episodes that are watched: one statement for all who ask meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from episodes.models import Step
from episodes.store_rows import step_of
from podium_kit.group_commit import GroupCommit
from podium_kit.postgres.engine import autocommit

READ = text(
    """
    SELECT asked.id, asked.after, e.stop_reason IS NOT NULL AS ended, s.*, g.body
    FROM unnest(CAST(:ids AS uuid[]), CAST(:afters AS integer[])) AS asked (id, after)
    JOIN episodes e ON e.id = asked.id
    LEFT JOIN steps s ON s.episode_id = asked.id AND s.sequence > asked.after
    LEFT JOIN segments g USING (digest)
    ORDER BY s.sequence
    """
)
ASKED_MAX = 200
# An episode, and the sequence after which its steps are asked for.
Asked = tuple[str, int]


@dataclass
class News:
    """Steps in order, and whether the episode has ended: then there are no others."""

    ended: bool = False
    steps: list[Step] = field(default_factory=list)


class NewsStore:
    """Reads for watchers."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._reads = GroupCommit(self._read, lambda _asked: 1, ASKED_MAX)

    async def after(self, episode_id: str, sequence: int) -> News:
        """What came after a step."""
        return await self._reads.submit((episode_id, sequence))

    async def _read(self, asked: list[Asked]) -> Sequence[News]:
        found = {each: News() for each in asked}
        values = {"ids": [id for id, _ in found], "afters": [after for _, after in found]}
        async with autocommit(self._engine) as connection:
            for row in await connection.execute(READ, values):
                news = found[str(row.id), row.after]
                news.ended = row.ended
                if row.sequence is not None:
                    news.steps.append(step_of(row))
        return [found[each] for each in asked]
