"""Direct calls that have not ended, in PostgreSQL: each is one worker's until its lease ends."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from episodes.direct_calls.models import StoredCall
from episodes.direct_calls.store_rows import call_of
from podium_kit.postgres.engine import autocommit

# What workers listen to: a call is new.
CHANNEL = "direct_calls"

# Needs no disk flush: who loses it takes the call again, and goes on from what is stored of it.
TAKE = text(
    """
    WITH due AS (
        SELECT call_id FROM direct_call_queue WHERE due_time <= clock_timestamp()
        ORDER BY due_time LIMIT :most FOR UPDATE SKIP LOCKED
    ),
    taken AS (
        UPDATE direct_call_queue q
        SET holder = :holder, attempts = attempts + 1,
            due_time = clock_timestamp() + make_interval(secs => :lease_s)
        FROM due WHERE q.call_id = due.call_id
        RETURNING q.call_id, q.attempts
    )
    SELECT d.*, taken.attempts, extract(epoch FROM clock_timestamp() - d.create_time) AS age_s,
           set_config('synchronous_commit', 'off', true)
    FROM taken JOIN direct_calls d ON d.id = taken.call_id
    """
)
KEEP = text(
    """
    UPDATE direct_call_queue SET due_time = clock_timestamp() + make_interval(secs => :lease_s)
    WHERE call_id = ANY(CAST(:ids AS uuid[])) AND holder = :holder
    RETURNING call_id
    """
)
GIVE_BACK = text(
    """
    UPDATE direct_call_queue
    SET due_time = clock_timestamp() + make_interval(secs => :delay_s), holder = ''
    WHERE call_id = ANY(CAST(:ids AS uuid[])) AND holder = :holder
    """
)
DROP = text("DELETE FROM direct_call_queue WHERE call_id = CAST(:id AS uuid)")
WAITING = text(
    """
    SELECT coalesce(extract(epoch FROM clock_timestamp() - min(due_time)), 0)
    FROM direct_call_queue WHERE due_time <= clock_timestamp()
    """
)


@dataclass(frozen=True)
class TakenCall:
    """A call that is this worker's, how often it was taken, and how long ago it was asked for."""

    stored: StoredCall
    attempts: int
    age_s: float


class CallQueue:
    """Takes calls for one holder, and gives them back."""

    def __init__(self, engine: AsyncEngine, holder: str = "") -> None:
        self._engine = engine
        self._holder = holder

    async def take(self, most: int, lease_s: float) -> list[TakenCall]:
        """Calls that are nobody's, oldest first; others may take them when the lease ends."""
        values = {"most": most, "lease_s": lease_s, "holder": self._holder}
        async with autocommit(self._engine) as connection:
            rows = (await connection.execute(TAKE, values)).all()
        return [TakenCall(call_of(row), row.attempts, float(row.age_s)) for row in rows]

    async def keep(self, call_ids: Sequence[str], lease_s: float) -> set[str]:
        """Renews the leases; the calls that are still this holder's."""
        values = {"ids": list(call_ids), "lease_s": lease_s, "holder": self._holder}
        async with autocommit(self._engine) as connection:
            return {str(row.call_id) for row in await connection.execute(KEEP, values)}

    async def give_back(self, call_ids: Sequence[str], delay_s: float) -> None:
        """Lets anybody take what is this holder's, after a pause."""
        values = {"ids": list(call_ids), "delay_s": delay_s, "holder": self._holder}
        async with autocommit(self._engine) as connection:
            await connection.execute(GIVE_BACK, values)

    async def drop(self, call_id: str) -> None:
        """Takes a call out that has ended."""
        async with autocommit(self._engine) as connection:
            await connection.execute(DROP, {"id": call_id})

    async def waiting_s(self) -> float:
        """How long the oldest call has waited that no worker has; 0 when none does."""
        async with autocommit(self._engine) as connection:
            return float((await connection.execute(WAITING)).scalar_one())
