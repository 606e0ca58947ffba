from datetime import timedelta
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from episodes.attachments.checks import UNLIMITED, FileQuota
from episodes.attachments.store import NO_FILES, Files, require_room, store_files
from episodes.direct_calls.call import StoredCall
from episodes.errors import DirectCallNotFound, TooManyDirectCalls
from podium_kit.money import Money
from podium_kit.postgres.engine import autocommit, transaction

# A call is in the queue from the moment on that it is stored. Calls in flight beyond the limit are
# not counted.
INSERT = text(
    """
    WITH place AS (
        SELECT CAST(:running_limit AS bigint) = 0 OR count(*) < :running_limit AS is_free FROM (
            SELECT FROM direct_call_queue WHERE tenant = :tenant LIMIT :running_limit
        ) AS running
    ),
    stored AS (
        INSERT INTO direct_calls (id, tenant, subject, groups, spec, toolset, create_time)
        SELECT CAST(:id AS uuid), :tenant, :subject, CAST(:groups AS text[]),
               CAST(:spec AS bytea), CAST(:toolset AS bytea), CAST(:create_time AS timestamptz)
        FROM place WHERE is_free
        ON CONFLICT DO NOTHING RETURNING id, tenant
    ),
    queued AS (
        INSERT INTO direct_call_queue (call_id, tenant, holder, attempts, due_time)
        SELECT id, tenant, :holder, CASE WHEN :holder = '' THEN 0 ELSE 1 END,
               clock_timestamp() + make_interval(secs => :lease_s)
        FROM stored
    )
    SELECT is_free, id IS NOT NULL AS is_stored,
           CASE WHEN id IS NOT NULL AND :holder = ''
           THEN CAST(pg_notify('direct_calls', CAST(id AS text)) AS text) END
    FROM place LEFT JOIN stored ON true
    """
)
FIND_PLACE = text(
    """
    SELECT CAST(:running_limit AS bigint) = 0 OR count(*) < :running_limit AS is_free FROM (
        SELECT FROM direct_call_queue WHERE tenant = :tenant LIMIT :running_limit
    ) AS running
    """
)
FIND = text("SELECT * FROM direct_calls WHERE id = CAST(:id AS uuid)")
ANSWERED = text(
    """
    UPDATE direct_calls SET answer = :answer
    WHERE id = CAST(:id AS uuid) AND answer IS NULL AND end_time IS NULL
    RETURNING *
    """
)
# The notification is for those who wait in other processes.
ENDED = text(
    """
    WITH gone AS (
        DELETE FROM direct_call_queue WHERE call_id = CAST(:id AS uuid)
    ),
    ended AS (
        UPDATE direct_calls
        SET cost = :cost, currency = :currency, end_time = clock_timestamp(),
            answer = coalesce(answer, :answer)
        WHERE id = CAST(:id AS uuid) AND end_time IS NULL
        RETURNING *
    )
    SELECT *, CAST(pg_notify('episode_steps', CAST(id AS text)) AS text) FROM ended
    """
)
# As long as the gateway knows the idempotency keys that find a call.
AGE_MAX = timedelta(days=7)
# Another tenant's episode may have the id of a call.
FORGET = text(
    """
    WITH gone AS (
        DELETE FROM direct_calls WHERE create_time < now() - CAST(:age AS interval)
        RETURNING tenant, id
    )
    DELETE FROM attachments WHERE (tenant, owner_id) IN (SELECT tenant, id FROM gone)
    """
)


class DirectCallStore:
    """Stores the first answer and the first cost of each call."""

    def __init__(self, engine: AsyncEngine, quota: FileQuota = UNLIMITED) -> None:
        self._engine = engine
        self._quota = quota

    async def require_place(self, tenant: str, running_limit: int) -> None:
        """Raises TooManyDirectCalls. Calls at the same moment may miss each other, here and in
        `insert`; a limit of 0 is none.
        """
        values = {"tenant": tenant, "running_limit": running_limit}
        async with autocommit(self._engine) as connection:
            if not (await connection.execute(FIND_PLACE, values)).scalar_one():
                raise TooManyDirectCalls(running_limit)

    async def require_room(self, tenant: str, files: Files) -> None:
        """Raises FilesFull. Only `insert` is exact about calls at the same time."""
        async with autocommit(self._engine) as connection:
            await require_room(connection, tenant, files, self._quota)

    async def insert(
        self,
        call: StoredCall,
        files: Files = NO_FILES,
        holder: str = "",
        lease_s: float = 0.0,
        running_limit: int = 0,
    ) -> StoredCall:
        """Stores the call, or returns the one of any tenant that has its id.

        It is the holder's to make until the lease ends; without one a worker's. Raises
        TooManyDirectCalls, FilesFull, and InvalidAttachments for a file without bytes.
        """
        values = {
            name: getattr(call, name)
            for name in ("id", "tenant", "subject", "spec", "toolset", "create_time")
        }
        values |= {"groups": sorted(call.groups), "holder": holder, "lease_s": lease_s}
        values["running_limit"] = running_limit
        # A statement of its own takes one round trip in place of three.
        opened = transaction if files.attachments else autocommit
        async with opened(self._engine) as connection:
            place = (await connection.execute(INSERT, values)).one()
            if place.is_stored:
                if files.attachments:
                    await store_files(connection, call.tenant, call.id, files, self._quota)
                return call
        if place.is_free:
            return await self.load(call.id)
        if (found := await self.find(call.id)) is None:
            raise TooManyDirectCalls(running_limit)
        return found

    async def find(self, call_id: str) -> StoredCall | None:
        """Returns the call of any tenant that has the id."""
        async with autocommit(self._engine) as connection:
            row = (await connection.execute(FIND, {"id": call_id})).one_or_none()
        return None if row is None else call_of(row)

    async def load(self, call_id: str) -> StoredCall:
        """Returns a call of any tenant. Raises DirectCallNotFound."""
        if (found := await self.find(call_id)) is None:
            raise DirectCallNotFound(call_id)
        return found

    async def answered(self, call_id: str, answer: bytes) -> StoredCall:
        async with autocommit(self._engine) as connection:
            stored = await connection.execute(ANSWERED, {"id": call_id, "answer": answer})
            row = stored.one_or_none()
        return await self.load(call_id) if row is None else call_of(row)

    async def ended(self, call_id: str, cost: Money | None, answer: bytes) -> StoredCall:
        """Stores the cost, None for an unknown one, that is in the ledger, and the answer unless
        one is stored. Returns the call as it ended first."""
        values: dict[str, Any] = {
            "id": call_id,
            "answer": answer,
            "cost": None,
            "currency": None,
        }
        if cost is not None:
            values |= {"cost": cost.amount, "currency": cost.currency_code}
        async with autocommit(self._engine) as connection:
            row = (await connection.execute(ENDED, values)).one_or_none()
        return await self.load(call_id) if row is None else call_of(row)

    async def forget(self) -> None:
        async with autocommit(self._engine) as connection:
            await connection.execute(FORGET, {"age": AGE_MAX})


def call_of(row: Any) -> StoredCall:
    return StoredCall(
        id=str(row.id),
        tenant=row.tenant,
        subject=row.subject,
        groups=frozenset(row.groups),
        spec=bytes(row.spec),
        toolset=bytes(row.toolset),
        create_time=row.create_time,
        answer=None if row.answer is None else bytes(row.answer),
        cost=None if row.cost is None else Money(row.cost, row.currency),
        ended=row.end_time is not None,
    )
