"""One point in time across databases that know nothing of each other.

A shared lock on every table keeps writers out of all of them while each exports a snapshot; that
takes milliseconds, and then they write on. What the snapshots show is what a power cut at that
moment would have left.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import tenacity
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from podium_kit.client.errors import UserError
from podium_operations.backups.databases import engine_of

# Shorter than PostgreSQL's deadlock_timeout: our lock gives way before a writer is the victim.
LOCK_WAIT = text("SET LOCAL statement_timeout = '500ms'")
TABLES = text("""
    SELECT string_agg(oid::regclass::text, ', ') FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
      AND NOT relispartition AND relpersistence = 'p'
""")
WAIT_ON = text("SET LOCAL idle_in_transaction_session_timeout = 0")
EXPORT = text("SELECT pg_export_snapshot()")
# The statement's time was up, a lock was not to be had, a deadlock.
BUSY_STATES = {"57014", "55P03", "40P01"}
ATTEMPTS, PAUSE_S = 60, (0.2, 1.5)


class TablesBusy(UserError):
    def __init__(self) -> None:
        super().__init__(
            "the databases could not be brought to one point: something writes without a pause",
            "look for long transactions in pg_stat_activity, or stop the services first",
        )


@dataclass(frozen=True)
class Snapshot:
    """A transaction that sees the point; `name` lets other connections see it, too."""

    connection: AsyncConnection
    name: str


@dataclass(frozen=True)
class Point:
    time: datetime
    snapshots: Mapping[str, Snapshot]


@asynccontextmanager
async def one_point(urls: Mapping[str, str]) -> AsyncIterator[Point]:
    """Snapshots of the same moment, for as long as the context lasts.

    Raises DatabaseUnreachable, TablesBusy.
    """
    patient = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception(_is_busy),
        wait=tenacity.wait_random(*PAUSE_S),
        stop=tenacity.stop_after_attempt(ATTEMPTS),
    )
    async with AsyncExitStack() as stack:
        engines = {
            name: await stack.enter_async_context(engine_of(url)) for name, url in urls.items()
        }
        readers = {
            name: await stack.enter_async_context(engine.connect())
            for name, engine in engines.items()
        }
        try:
            yield await patient(_take, engines, readers)
        except tenacity.RetryError as error:
            raise TablesBusy from error


async def _take(
    engines: Mapping[str, AsyncEngine], readers: Mapping[str, AsyncConnection]
) -> Point:
    async with AsyncExitStack() as locks:
        holders = [await locks.enter_async_context(each.begin()) for each in engines.values()]
        locked = await asyncio.gather(*map(_lock, holders), return_exceptions=True)
        for error in filter(None, locked):
            raise error
        time = datetime.now(UTC)
        names = await asyncio.gather(*map(_export, readers.values()))
    return Point(
        time,
        {
            name: Snapshot(reader, snapshot)
            for (name, reader), snapshot in zip(readers.items(), names, strict=True)
        },
    )


async def _lock(holder: AsyncConnection) -> None:
    tables = (await holder.execute(TABLES)).scalar()
    if tables:
        await holder.execute(LOCK_WAIT)
        await holder.execute(text(f"LOCK TABLE {tables} IN SHARE MODE"))


async def _export(reader: AsyncConnection) -> str:
    await reader.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    await reader.execute(WAIT_ON)
    return str((await reader.execute(EXPORT)).scalar_one())


def _is_busy(error: BaseException) -> bool:
    return isinstance(error, DBAPIError) and getattr(error.orig, "sqlstate", None) in BUSY_STATES
