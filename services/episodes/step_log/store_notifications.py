from collections.abc import Sequence

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from podium_kit.postgres.engine import autocommit

# Steps of episodes and parts of their answers, and ends of direct calls.
CHANNEL = "episode_steps"
ENDS_CHANNEL = "episode_ends"
# Nothing is stored, so nothing needs a disk flush.
NOTIFY_PARTS = text(
    """
    SELECT set_config('synchronous_commit', 'off', true),
           (SELECT count(pg_notify('episode_steps', part))
            FROM unnest(CAST(:parts AS text[])) AS part)
    """
)


class AnswerPartNotifier:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def send(self, notifications: Sequence[str]) -> None:
        async with autocommit(self._engine) as connection:
            await connection.execute(NOTIFY_PARTS, {"parts": list(notifications)})
