"""A queue in PostgreSQL: each of its rows is one worker's until a lease ends.

A row is there from the commit on that stores what is to be done to the one that stores its end.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncEngine

from podium_kit.postgres.engine import autocommit

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
            ORDER BY q.tenant, q.due_time LIMIT 2 * :most
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
    LIMIT :most
"""
# Needs no disk flush: who loses it takes the row again, and goes on from what is stored.
TAKE = """
    WITH due AS ({next}),
    taken AS (
        UPDATE {name} q
        SET holder = :holder, attempts = attempts + 1,
            due_time = clock_timestamp() + make_interval(secs => :lease_s) {at_first}
        FROM due WHERE q.{id} = due.id
        RETURNING q.*
    )
    SELECT {read}, taken.tenant, taken.attempts, {cancelled} AS cancelled,
           extract(epoch FROM clock_timestamp() - {since}) AS age_s,
           set_config('synchronous_commit', 'off', true)
    FROM taken {join}
"""
_KEEP = """
    UPDATE {name} SET due_time = clock_timestamp() + make_interval(secs => :lease_s)
    WHERE {id} = ANY(CAST(:ids AS uuid[])) AND holder = :holder
    RETURNING {id} AS id, {cancelled} AS cancelled
"""
_GIVE_BACK = """
    UPDATE {name} SET due_time = clock_timestamp() + make_interval(secs => :delay_s), holder = ''
    WHERE {id} = ANY(CAST(:ids AS uuid[])) AND holder = :holder
"""
_DROP = "DELETE FROM {name} WHERE {id} = CAST(:id AS uuid)"
_WAITING = """
    SELECT coalesce(extract(epoch FROM clock_timestamp() - min(due_time)), 0)
    FROM {name} WHERE due_time <= clock_timestamp()
"""
_SIZE = "SELECT count(*) FROM {name}"


@dataclass(frozen=True)
class QueueTable(Generic[T]):
    """A table with the columns tenant, due_time, holder and attempts, in words of SQL.

    What is taken is read by `read` and `join`, in which the row is `taken`, and made by `parse`;
    its age counts from `since`. `at_first` are further assignments of a taking. Where rows can
    be cancelled, `cancelled` is the column.
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
        """One of the templates above, for this table; none of it comes from a request."""
        words = ("name", "id", "read", "since", "join", "at_first", "cancelled")
        values = {word: getattr(self, word) for word in words}
        return text(template.format(**values, next=_NEXT.format(**values)))


@dataclass(frozen=True)
class Taken(Generic[T]):
    """A row leased by this worker: how often it was, and since when it exists by the loop's clock.

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
    """Takes rows for one holder, and gives them back."""

    def __init__(self, engine: AsyncEngine, table: QueueTable[T], holder: str = "") -> None:
        self._engine = engine
        self.table = table
        self._holder = holder
        self._take, self._keep, self._give_back, self._drop, self._waiting, self._size = map(
            table.statement, (TAKE, _KEEP, _GIVE_BACK, _DROP, _WAITING, _SIZE)
        )

    async def take(self, most: int, lease_s: float, per_tenant: int = 2**31) -> list[Taken[T]]:
        """Leases rows that no worker holds: tenants in turn, and a tenant's oldest row first.

        A tenant has `per_tenant` rows of this holder at most. Others may take a row when its
        lease ends.
        """
        values = {
            "most": most,
            "lease_s": lease_s,
            "holder": self._holder,
            "per_tenant": per_tenant,
        }
        async with autocommit(self._engine) as connection:
            rows = (await connection.execute(self._take, values)).all()
        return [self._taken(row) for row in rows]

    async def keep(self, ids: Sequence[str], lease_s: float) -> dict[str, bool]:
        """Renews the leases; what is still this holder's, and whether it was cancelled."""
        values = {"ids": list(ids), "lease_s": lease_s, "holder": self._holder}
        async with autocommit(self._engine) as connection:
            rows = await connection.execute(self._keep, values)
            return {str(row.id): row.cancelled for row in rows}

    async def give_back(self, ids: Sequence[str], delay_s: float) -> None:
        """Lets anybody take what is this holder's, after a pause."""
        values = {"ids": list(ids), "delay_s": delay_s, "holder": self._holder}
        async with autocommit(self._engine) as connection:
            await connection.execute(self._give_back, values)

    async def drop(self, id: str) -> None:
        """Takes out what has ended."""
        async with autocommit(self._engine) as connection:
            await connection.execute(self._drop, {"id": id})

    async def waiting_s(self) -> float:
        """How long the oldest row has waited that no worker has; 0 when none does."""
        async with autocommit(self._engine) as connection:
            return float((await connection.execute(self._waiting)).scalar_one())

    async def size(self) -> float:
        """How many rows wait or are some worker's."""
        async with autocommit(self._engine) as connection:
            return float((await connection.execute(self._size)).scalar_one())

    def _taken(self, row: Any) -> Taken[T]:
        cancelled = asyncio.Event()
        if row.cancelled:
            cancelled.set()
        since = asyncio.get_running_loop().time() - float(row.age_s)
        return Taken(str(row.id), row.tenant, self.table.parse(row), row.attempts, since, cancelled)
