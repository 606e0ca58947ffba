"""Leadership by a PostgreSQL advisory lock: held as long as its connection lives."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from podium_kit.postgres.engine import DatabaseUnavailable, database_errors

TRY_LOCK = text("SELECT pg_try_advisory_lock(:key)")
TRY_NAMED_LOCK = text("SELECT pg_try_advisory_lock(hashtextextended(:key, 0))")
ALIVE = text("SELECT 1")
# A session ends with its process, and its locks with it.
IS_HELD = """
    EXISTS (
        SELECT FROM pg_locks l CROSS JOIN LATERAL hashtextextended({name}, 0) AS key
        WHERE l.locktype = 'advisory' AND l.objsubid = 1
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND CAST(l.classid AS bigint) = (key >> 32) & 4294967295
        AND CAST(l.objid AS bigint) = key & 4294967295
    )
"""


class Leadership:
    """`key` is the lock's number, or a name that the server hashes."""

    def __init__(self, engine: AsyncEngine, key: int | str) -> None:
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._key = key
        self._connection: AsyncConnection | None = None
        self._asking = asyncio.Lock()
        self._taken_at = 0.0

    @property
    def held_for_s(self) -> float:
        """Returns how long the lock has been held by one session; 0 where it is not."""
        if self._connection is None:
            return 0.0
        return asyncio.get_running_loop().time() - self._taken_at

    async def lead(self, work: Callable[[], Awaitable[object]]) -> object:
        """Does the work if this process leads; what it returned."""
        return await work() if await self.held() else None

    async def held(self) -> bool:
        """Returns whether this process leads now, taking the lead when it is free."""
        async with self._asking:
            if self._connection is None:
                return await self._take()
            try:
                await self._connection.execute(ALIVE)
            except (DBAPIError, OSError):
                await self.give_up()
                return False
            return True

    async def keep(self) -> None:
        """Does what `held` does, as a background task, which True would start again at once.

        A database that is away is asked again in the next round: a task that fails pauses longer
        and longer, and without its lock a process passes for one that has ended.
        """
        with suppress(DatabaseUnavailable), database_errors():
            await self.held()

    async def give_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.invalidate()
            await connection.close()

    async def _take(self) -> bool:
        connection = await self._engine.connect()
        try:
            statement = TRY_LOCK if isinstance(self._key, int) else TRY_NAMED_LOCK
            taken: bool = (await connection.execute(statement, {"key": self._key})).scalar_one()
        except BaseException:
            # The server may have given it the lock, which the pool must not keep.
            await connection.invalidate()
            await connection.close()
            raise
        if taken:
            self._connection, self._taken_at = connection, asyncio.get_running_loop().time()
        else:
            await connection.close()
        return taken
