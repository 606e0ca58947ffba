"""Steps and ends of watched episodes: one statement for all watchers that ask meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from episodes.models import End, Step
from episodes.store import end_of, step_of
from podium_kit.postgres.engine import autocommit
from podium_kit.postgres.group_commit import GroupCommit

# How an episode ended comes once, with the last of its steps: an answer may be large.
_READ = """
    WITH found AS (
        SELECT asked.id, asked.after, s.*,
               s.sequence IS NOT DISTINCT FROM
                   max(s.sequence) OVER (PARTITION BY asked.id, asked.after) AS is_last
        FROM {asked} LEFT JOIN steps s ON s.episode_id = asked.id AND s.sequence > asked.after
    )
    SELECT found.*, g.body, e.stop_reason, e.answer, e.failure, e.turn_count, e.tool_call_count,
           e.cost AS total_cost, e.currency AS total_currency, e.unpriced_call_count, e.usage,
           e.end_time
    FROM found
    LEFT JOIN segments g USING (digest)
    LEFT JOIN episodes e ON e.id = found.id AND found.is_last AND e.stop_reason IS NOT NULL
    ORDER BY found.sequence
"""
# PostgreSQL plans anew for each list, which takes longer than reading what one episode has.
READ = text(
    _READ.format(asked="(SELECT CAST(:id AS uuid) AS id, CAST(:after AS integer) AS after) asked")
)
READ_ALL = text(
    _READ.format(
        asked="unnest(CAST(:ids AS uuid[]), CAST(:afters AS integer[])) AS asked (id, after)"
    )
)
READ_ENDS = text(
    """
    SELECT e.id, e.stop_reason, e.answer, e.failure, e.turn_count, e.tool_call_count,
           e.cost AS total_cost, e.currency AS total_currency, e.unpriced_call_count, e.usage,
           e.end_time, (SELECT max(sequence) FROM steps WHERE episode_id = e.id) AS last_sequence
    FROM episodes e WHERE e.id = ANY(CAST(:ids AS uuid[])) AND e.stop_reason IS NOT NULL
    """
)
ASKED_MAX = 200
# An episode, and the sequence after which its steps are asked for.
Asked = tuple[str, int]


@dataclass
class News:
    """Steps in order, and the end of an episode that has ended: no others follow then."""

    end: End | None = None
    steps: list[Step] = field(default_factory=list)


@dataclass(frozen=True)
class WatchedEnd:
    """The end of an episode, with the sequence of its event."""

    end: End
    sequence: int


class NewsStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._reads = GroupCommit(self._read, lambda _asked: 1, ASKED_MAX)
        self._ends = GroupCommit(self._read_ends, lambda _asked: 1, ASKED_MAX)

    async def after(self, episode_id: str, sequence: int) -> News:
        return await self._reads.submit((episode_id, sequence))

    async def end(self, episode_id: str) -> WatchedEnd | None:
        """Returns None as long as it runs."""
        return await self._ends.submit(episode_id)

    async def _read_ends(self, ids: list[str]) -> Sequence[WatchedEnd | None]:
        async with autocommit(self._engine) as connection:
            rows = await connection.execute(READ_ENDS, {"ids": ids})
            found = {
                str(row.id): WatchedEnd(end_of(row), (row.last_sequence or 0) + 2) for row in rows
            }
        return [found.get(id) for id in ids]

    async def _read(self, asked: list[Asked]) -> Sequence[News]:
        found = {each: News() for each in asked}
        if len(found) == 1:
            [(id, after)] = found
            statement, values = READ, {"id": id, "after": after}
        else:
            ids, afters = zip(*found, strict=True)
            statement, values = READ_ALL, {"ids": list(ids), "afters": list(afters)}
        async with autocommit(self._engine) as connection:
            for row in await connection.execute(statement, values):
                news = found[str(row.id), row.after]
                if row.stop_reason is not None:
                    news.end = end_of(row)
                if row.sequence is not None:
                    news.steps.append(step_of(row))
        return [found[each] for each in asked]
