"""Results of the callers' own functions, by episode and turn, in PostgreSQL.

The worker alone writes the step log; results wait here for it, so no text passes through a
workflow's history.
"""

from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from podium_kit.postgres.engine import autocommit

PUT = text(
    """
    INSERT INTO client_results (episode_id, turn, results)
    SELECT id, :turn, :results FROM episodes
    WHERE id = CAST(:episode_id AS uuid) AND stop_reason IS NULL
    ON CONFLICT DO NOTHING
    """
)
GET = text(
    """
    SELECT r.results, extract(epoch FROM r.create_time - s.create_time) AS waited_s
    FROM client_results r JOIN steps s USING (episode_id, turn)
    WHERE r.episode_id = CAST(:episode_id AS uuid) AND r.turn = :turn AND s.kind = 'client_calls'
    """
)


@dataclass(frozen=True)
class ClientResults:
    """Serialized results of a turn, and the seconds that its calls waited for them."""

    results: bytes
    waited_s: float


class ClientResultStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def put(self, episode_id: str, turn: int, results: bytes) -> ClientResults | None:
        """Stores the results unless there are some, and returns the stored ones.

        Returns None when the episode ended without any.
        """
        values = {"episode_id": episode_id, "turn": turn, "results": results}
        async with autocommit(self._engine) as connection:
            await connection.execute(PUT, values)
        return await self.get(episode_id, turn)

    async def get(self, episode_id: str, turn: int) -> ClientResults | None:
        async with autocommit(self._engine) as connection:
            found = await connection.execute(GET, {"episode_id": episode_id, "turn": turn})
            row = found.one_or_none()
        return None if row is None else ClientResults(row.results, float(row.waited_s))
