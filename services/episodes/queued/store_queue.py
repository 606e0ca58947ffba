"""Episodes without a workflow, in PostgreSQL: each is one worker's until its lease ends."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from episodes.leases.store_queue import QueueTable
from episodes.models import StoredEpisode
from episodes.store_rows import accepted_of
from episodes.workflows.payloads import TurnResult
from podium_kit.postgres.engine import autocommit

# Also wakes whoever waits for the pause to end that follows a failure.
CANCEL = text(
    """
    UPDATE episode_queue
    SET cancelled = true,
        due_time = CASE WHEN holder = '' THEN clock_timestamp() ELSE due_time END
    WHERE episode_id = CAST(:id AS uuid)
    RETURNING pg_notify('episode_queue', CAST(episode_id AS text))
    """
)
# Whoever marked it first says how it ends.
MARK = text(
    """
    UPDATE episode_queue SET handover = coalesce(handover, CAST(:ending AS jsonb))
    WHERE episode_id = CAST(:id AS uuid)
    RETURNING CAST(handover AS text) AS handover,
              coalesce(extract(epoch FROM clock_timestamp() - begin_time), 0) AS ran_s
    """
)
RELEASE = text("DELETE FROM episode_queue WHERE episode_id = CAST(:id AS uuid) AND NOT cancelled")
IS_CANCELLED = text("SELECT cancelled FROM episode_queue WHERE episode_id = CAST(:id AS uuid)")
DROP = text("DELETE FROM episode_queue WHERE episode_id = CAST(:id AS uuid)")


@dataclass(frozen=True)
class Marked:
    """An episode that a workflow is to go on with: how it ends, None where it goes on, and how
    long it has run."""

    ending: TurnResult | None
    ran_s: float


@dataclass(frozen=True)
class QueuedEpisode:
    """An episode as it was stored; what it has done since is in its step log."""

    stored: StoredEpisode
    handed_over: bool

    @property
    def time_limit_s(self) -> float:
        return self.stored.new.time_limit_s


def _queued_episode(row: Any) -> QueuedEpisode:
    return QueuedEpisode(accepted_of(row), row.handover is not None)


EPISODE_QUEUE = QueueTable(
    kind="episode",
    name="episode_queue",
    id="episode_id",
    channel="episode_queue",
    read="e.*, g.body AS toolset, taken.handover",
    join="""
        JOIN episodes e ON e.id = taken.episode_id
        JOIN segments g ON g.digest = e.toolset_digest
    """,
    since="taken.begin_time",
    at_first=", begin_time = coalesce(q.begin_time, clock_timestamp())",
    cancelled="cancelled",
    parse=_queued_episode,
)


class EpisodeQueue:
    """What others than the holder do to an episode of the queue."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def cancel(self, episode_id: str) -> bool:
        """Has its worker, or the next one, end it; False when it is not in the queue."""
        async with autocommit(self._engine) as connection:
            return bool((await connection.execute(CANCEL, {"id": episode_id})).rowcount)

    async def mark(self, episode_id: str, ending: TurnResult | None) -> Marked | None:
        """From here on no worker takes its turns; None when it is not in the queue."""
        given = json.dumps({} if ending is None else asdict(ending))
        async with autocommit(self._engine) as connection:
            marked = await connection.execute(MARK, {"id": episode_id, "ending": given})
            row = marked.one_or_none()
        if row is None:
            return None
        stored = json.loads(row.handover)
        return Marked(TurnResult(**stored) if stored else None, float(row.ran_s))

    async def release(self, episode_id: str) -> bool:
        """Takes it out; False when it stays, for it was cancelled."""
        async with autocommit(self._engine) as connection:
            if (await connection.execute(RELEASE, {"id": episode_id})).rowcount:
                return True
            return not (await connection.execute(IS_CANCELLED, {"id": episode_id})).scalar()

    async def drop(self, episode_id: str) -> None:
        """Takes it out, whatever it is."""
        async with autocommit(self._engine) as connection:
            await connection.execute(DROP, {"id": episode_id})
