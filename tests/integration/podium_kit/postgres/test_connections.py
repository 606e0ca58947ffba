import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import make_url, text

from cost_ledger.store_engine import open_journal_pool
from embedded_servers import Database
from podium_kit.postgres.connection import OPTIONS
from podium_kit.postgres.engine import open_engine, transaction


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
