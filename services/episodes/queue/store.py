"""Queues in PostgreSQL, whose rows are leased by one worker at a time.

A row exists from acceptance until completion.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncEngine

from episodes.models import StoredEpisode
from episodes.store import accepted_of
from episodes.workflows.payloads import TurnResult
from podium_kit.postgres.engine import autocommit
from podium_kit.postgres.leadership import IS_HELD

T = TypeVar("T")

# Next is the tenant that has the fewest rows in work: a row's place is how many of its tenant's
# are worked on, or wait before it.
# Reads a few rows of each tenant, however many wait. BETWEEN, because for "=" PostgreSQL may go
# through everybody's rows by age. More than are wanted: another worker may be locking some.
_NEXT = """
    WITH RECURSIVE tenants AS (
        (SELECT tenant FROM {name} ORDER BY tenant LIMIT 1)
        UNION ALL
        SELECT (SELECT q.tenant FROM {name} q WHERE q.tenant > t.tenant ORDER BY q.tenant LIMIT 1)
        FROM tenants t WHERE t.tenant IS NOT NULL
    ),
    waiting AS (
        SELECT w.id, w.due_time, held.count + w.before AS place, held.mine + w.before AS of_mine
        FROM tenants t
        CROSS JOIN LATERAL (
            SELECT count(*), count(*) FILTER (WHERE q.holder = :holder) AS mine FROM {name} q
            WHERE q.tenant = t.tenant AND q.holder <> '' AND q.due_time > clock_timestamp()
        ) held
        CROSS JOIN LATERAL (
            SELECT q.{id} AS id, q.due_time,
                   row_number() OVER (ORDER BY q.tenant, q.due_time) AS before
            FROM {name} q
            WHERE q.tenant BETWEEN t.tenant AND t.tenant AND q.due_time <= clock_timestamp()
            ORDER BY q.tenant, q.due_time LIMIT 2 * :limit
        ) w
    )
    SELECT free.id
    FROM (
        SELECT id FROM waiting WHERE of_mine <= :per_tenant ORDER BY place, due_time
    ) first
    CROSS JOIN LATERAL (
        SELECT q.{id} AS id FROM {name} q
        WHERE q.{id} = first.id AND q.due_time <= clock_timestamp()
        FOR UPDATE SKIP LOCKED
    ) free
    LIMIT :limit
"""
# Needs no disk flush: a lost lease is acquired again, and the work continues from what is stored.
ACQUIRE = """
    WITH due AS ({next}),
    leased AS (
        UPDATE {name} q
        SET holder = :holder, attempts = attempts + 1,
            due_time = clock_timestamp() + make_interval(secs => :lease_s) {at_first}
        FROM due WHERE q.{id} = due.id
        RETURNING q.*
    )
    SELECT {read}, leased.tenant, leased.attempts, {cancelled} AS cancelled,
           extract(epoch FROM clock_timestamp() - {since}) AS age_s,
           set_config('synchronous_commit', 'off', true)
    FROM leased {join}
"""
_RENEW = """
    UPDATE {name} SET due_time = clock_timestamp() + make_interval(secs => :lease_s)
    WHERE {id} = ANY(CAST(:ids AS uuid[])) AND holder = :holder
    RETURNING {id} AS id, {cancelled} AS cancelled
"""
_RELEASE = """
    UPDATE {name} SET due_time = clock_timestamp() + make_interval(secs => :delay_s), holder = ''
    WHERE {id} = ANY(CAST(:ids AS uuid[])) AND holder = :holder
"""
# Renewals that are due as well spare the rows of a worker that opens a new session.
_FREE_ORPHANS = f"""
    UPDATE {{name}} q SET due_time = clock_timestamp()
    WHERE q.holder <> ''
    AND q.due_time BETWEEN clock_timestamp() AND clock_timestamp() + make_interval(secs => :due_s)
    AND NOT {IS_HELD.format(name="q.holder")}
"""  # noqa: S608  a constant
_DROP = "DELETE FROM {name} WHERE {id} = CAST(:id AS uuid)"
_BACKLOG_AGE = """
    SELECT coalesce(extract(epoch FROM clock_timestamp() - min(due_time)), 0)
    FROM {name} WHERE due_time <= clock_timestamp()
"""
_SIZE = "SELECT count(*) FROM {name}"


@dataclass(frozen=True)
class QueueTable(Generic[T]):
    """A table with the columns tenant, due_time, holder and attempts, as fragments of SQL.

    A leased row is read by `read` and `join`, in which it is `leased`, and parsed by `parse`; its
    age counts from `since`. `at_first` are further assignments of a lease. `cancelled` is the
    column of rows that can be cancelled.
    """

    kind: str
    name: str
    id: str
    # What workers listen to: a row is new, or one has changed.
    channel: str
    read: str
    since: str
    parse: Callable[[Any], T]
    join: str = ""
    at_first: str = ""
    cancelled: str = "false"

    def statement(self, template: str) -> TextClause:
        """Fills one of the templates above for this table; none of it comes from a request."""
        fields = ("name", "id", "read", "since", "join", "at_first", "cancelled")
        values = {word: getattr(self, word) for word in fields}
        return text(template.format(**values, next=_NEXT.format(**values)))


@dataclass(frozen=True)
class LeasedRow(Generic[T]):
    """A row leased by this worker, with the number of its leases and its time of creation by the
    loop's clock.

    `cancelled` is set as soon as this worker knows.
    """

    id: str
    tenant: str
    item: T
    attempts: int
    since: float
    cancelled: asyncio.Event

    @property
    def age_s(self) -> float:
        return asyncio.get_running_loop().time() - self.since


class WorkQueue(Generic[T]):
    def __init__(self, engine: AsyncEngine, table: QueueTable[T], holder: str = "") -> None:
        self._engine = engine
        self.table = table
        self._holder = holder
        (
            self._acquire_rows,
            self._renew,
            self._release,
            self._free_orphans,
            self._drop,
            self._backlog_age,
            self._size,
        ) = map(
            table.statement,
            (ACQUIRE, _RENEW, _RELEASE, _FREE_ORPHANS, _DROP, _BACKLOG_AGE, _SIZE),
        )

    async def acquire(
        self, limit: int, lease_s: float, per_tenant: int = 2**31
    ) -> list[LeasedRow[T]]:
        """Leases rows that no worker holds: tenants in turn, and a tenant's oldest row first.

        A tenant has `per_tenant` rows of this holder at most. Others may lease a row when its
        lease ends.
        """
        values = {
            "limit": limit,
            "lease_s": lease_s,
            "holder": self._holder,
            "per_tenant": per_tenant,
        }
        async with autocommit(self._engine) as connection:
            rows = (await connection.execute(self._acquire_rows, values)).all()
        return [self._leased(row) for row in rows]

    async def renew(self, ids: Sequence[str], lease_s: float) -> dict[str, bool]:
        """Renews the leases; returns those that are still this holder's, and whether each is
        cancelled."""
        values = {"ids": list(ids), "lease_s": lease_s, "holder": self._holder}
        async with autocommit(self._engine) as connection:
            rows = await connection.execute(self._renew, values)
            return {str(row.id): row.cancelled for row in rows}

    async def release(self, ids: Sequence[str], delay_s: float) -> None:
        """Releases this holder's rows for any worker, after a pause."""
        values = {"ids": list(ids), "delay_s": delay_s, "holder": self._holder}
        async with autocommit(self._engine) as connection:
            await connection.execute(self._release, values)

    async def free_orphans(self, due_s: float) -> int:
        """Ends leases that end within `due_s` and whose holder holds no lock of its name, see
        Leadership; returns how many."""
        async with autocommit(self._engine) as connection:
            return (await connection.execute(self._free_orphans, {"due_s": due_s})).rowcount

    async def drop(self, id: str) -> None:
        async with autocommit(self._engine) as connection:
            await connection.execute(self._drop, {"id": id})

    async def backlog_age_s(self) -> float:
        async with autocommit(self._engine) as connection:
            return float((await connection.execute(self._backlog_age)).scalar_one())

    async def size(self) -> float:
        async with autocommit(self._engine) as connection:
            return float((await connection.execute(self._size)).scalar_one())

    def _leased(self, row: Any) -> LeasedRow[T]:
        cancelled = asyncio.Event()
        if row.cancelled:
            cancelled.set()
        since = asyncio.get_running_loop().time() - float(row.age_s)
        return LeasedRow(
            str(row.id), row.tenant, self.table.parse(row), row.attempts, since, cancelled
        )


# Also wakes the worker that waits for the pause to end that follows a failure.
CANCEL = text(
    """
    UPDATE episode_queue
    SET cancelled = true,
        due_time = CASE WHEN holder = '' THEN clock_timestamp() ELSE due_time END
    WHERE episode_id = CAST(:id AS uuid)
    RETURNING pg_notify('episode_queue', CAST(episode_id AS text))
    """
)
# The process that marked it first decides how it ends.
MARK = text(
    """
    UPDATE episode_queue SET handover = coalesce(handover, CAST(:ending AS jsonb))
    WHERE episode_id = CAST(:id AS uuid)
    RETURNING CAST(handover AS text) AS handover,
              coalesce(extract(epoch FROM clock_timestamp() - begin_time), 0) AS ran_s
    """
)
REMOVE = text("DELETE FROM episode_queue WHERE episode_id = CAST(:id AS uuid) AND NOT cancelled")
IS_CANCELLED = text("SELECT cancelled FROM episode_queue WHERE episode_id = CAST(:id AS uuid)")
DROP = text("DELETE FROM episode_queue WHERE episode_id = CAST(:id AS uuid)")


@dataclass(frozen=True)
class HandoverMark:
    """The mark of an episode that a workflow continues: its end, None where it has none, and its
    age."""

    ending: TurnResult | None
    ran_s: float


@dataclass(frozen=True)
class QueuedEpisode:
    """An episode as it was accepted; its progress is in the step log."""

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
    read="e.*, g.body AS toolset, leased.handover",
    join="""
        JOIN episodes e ON e.id = leased.episode_id
        JOIN segments g ON g.digest = e.toolset_digest
    """,
    since="leased.begin_time",
    at_first=", begin_time = coalesce(q.begin_time, clock_timestamp())",
    cancelled="cancelled",
    parse=_queued_episode,
)


class EpisodeQueue:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def cancel(self, episode_id: str) -> bool:
        """Has a worker end the episode; False when it is not in the queue."""
        async with autocommit(self._engine) as connection:
            return bool((await connection.execute(CANCEL, {"id": episode_id})).rowcount)

    async def mark(self, episode_id: str, ending: TurnResult | None) -> HandoverMark | None:
        """Marks an episode, whose turns no worker takes from now on; None when it is not queued."""
        given = json.dumps({} if ending is None else asdict(ending))
        async with autocommit(self._engine) as connection:
            marked = await connection.execute(MARK, {"id": episode_id, "ending": given})
            row = marked.one_or_none()
        if row is None:
            return None
        stored = json.loads(row.handover)
        return HandoverMark(TurnResult(**stored) if stored else None, float(row.ran_s))

    async def remove(self, episode_id: str) -> bool:
        """Removes the row; False where it stays because the episode was cancelled."""
        async with autocommit(self._engine) as connection:
            if (await connection.execute(REMOVE, {"id": episode_id})).rowcount:
                return True
            return not (await connection.execute(IS_CANCELLED, {"id": episode_id})).scalar()

    async def drop(self, episode_id: str) -> None:
        async with autocommit(self._engine) as connection:
            await connection.execute(DROP, {"id": episode_id})
