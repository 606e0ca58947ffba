"""PostgreSQL's errors and connections as services meet them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import AsyncEngine

from cost_ledger.store_engine import open_journal_pool
from embedded_servers import Database
from podium_kit.postgres.engine import (
    OPTIONS,
    DatabaseUnavailable,
    TransactionConflict,
    open_engine,
    transaction,
)
from podium_kit.rpc.errors import Unavailable


@pytest.mark.parametrize(
    "statements",
    [
        ("SET LOCAL statement_timeout = 10", "SELECT pg_sleep(60)"),
        ("SELECT pg_terminate_backend(pg_backend_pid())",),
        ("DO $$ BEGIN RAISE SQLSTATE '53200'; END $$",),
    ],
)
async def test_a_timeout_or_a_lost_connection_is_unavailable(
    database: Database, statements: tuple[str, ...]
) -> None:
    engine = open_engine(await database())
    with pytest.raises(DatabaseUnavailable):
        async with transaction(engine) as connection:
            for statement in statements:
                await connection.execute(text(statement))
    await engine.dispose()


async def test_connections_that_a_restart_ended_are_not_given_out(database: Database) -> None:
    url = await database()
    service, restart = open_engine(url), open_engine(url)
    pids, ended = [], []
    async with AsyncExitStack() as stack:
        for _ in range(3):
            connection = await stack.enter_async_context(transaction(service))
            pids.append((await connection.execute(text("SELECT pg_backend_pid()"))).scalar_one())
            driver: Any = (await connection.get_raw_connection()).driver_connection
            ended.append(end := asyncio.Event())
            driver.add_termination_listener(lambda _, end=end: end.set())
    async with transaction(restart) as connection:
        for pid in pids:
            await connection.execute(text(f"SELECT pg_terminate_backend({pid})"))
    await asyncio.gather(*(each.wait() for each in ended))
    for _ in pids:
        async with transaction(service) as connection:
            fresh = (await connection.execute(text("SELECT pg_backend_pid()"))).scalar_one()
            assert fresh not in pids
    await service.dispose()
    await restart.dispose()


async def test_of_a_deadlock_one_side_is_unavailable_and_the_other_goes_on(
    database: Database,
) -> None:
    engine, both = open_engine(await database()), asyncio.Barrier(2)

    async def take(first: int, second: int) -> None:
        async with transaction(engine) as connection:
            await connection.execute(text(f"SELECT pg_advisory_xact_lock({first})"))
            await both.wait()
            await connection.execute(text(f"SELECT pg_advisory_xact_lock({second})"))

    ends = await asyncio.gather(take(1, 2), take(2, 1), return_exceptions=True)
    await engine.dispose()
    [lost] = [end for end in ends if end is not None]
    assert isinstance(lost, TransactionConflict)
    assert isinstance(lost, Unavailable)


async def test_a_locked_row_is_unavailable_when_the_wait_has_a_limit(database: Database) -> None:
    engine = open_engine(await database())
    async with transaction(engine) as holder:
        await holder.execute(text("SELECT pg_advisory_xact_lock(1)"))
        with pytest.raises(DatabaseUnavailable):
            await _lock_within_10_ms(engine)
    await engine.dispose()


async def _lock_within_10_ms(engine: AsyncEngine) -> None:
    async with transaction(engine) as connection:
        await connection.execute(text("SET LOCAL lock_timeout = 10"))
        await connection.execute(text("SELECT pg_advisory_xact_lock(1)"))


async def test_a_migration_under_a_running_service_is_unavailable_once(database: Database) -> None:
    url = await database()
    service, migrating = open_engine(url, pool_size=1), open_engine(url)
    found = text("SELECT * FROM thing")
    async with transaction(migrating) as connection:
        await connection.execute(text("CREATE TABLE thing (id int)"))
    async with transaction(service) as connection:
        await connection.execute(found)
    async with transaction(migrating) as connection:
        await connection.execute(text("ALTER TABLE thing ADD COLUMN name text"))
    with pytest.raises(TransactionConflict):
        async with transaction(service) as connection:
            await connection.execute(found)
    async with transaction(service) as connection:
        assert list((await connection.execute(found)).keys()) == ["id", "name"]
    await migrating.dispose()
    await service.dispose()


async def test_the_kernel_watches_every_connection(database: Database) -> None:
    async with by_tcp(await database()) as url:
        engine = open_engine(url)
        async with transaction(engine) as connection:
            await connection.execute(text("SELECT 1"))
            driver: Any = (await connection.get_raw_connection()).driver_connection
            _assert_watched(driver)
        await engine.dispose()
        async with await open_journal_pool(url) as pool, pool.acquire() as lent:
            _assert_watched(lent)


def _assert_watched(connection: Any) -> None:
    connected = connection._transport.get_extra_info("socket")
    for level, name, value in OPTIONS:
        assert connected.getsockopt(level, name) == value


@asynccontextmanager
async def by_tcp(database_url: str) -> AsyncIterator[str]:
    """The database at a port: the embedded server listens in its folder alone."""
    url = make_url(database_url)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind = await asyncio.open_unix_connection(f"{url.query['host']}/.s.PGSQL.5432")
        await asyncio.gather(_pass(reader, behind[1]), _pass(behind[0], writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        at_port = url.set(host="127.0.0.1", port=port, query={"ssl": "disable"})
        yield at_port.render_as_string(hide_password=False)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(1 << 16):
        writer.write(chunk)
        await writer.drain()
    writer.close()
