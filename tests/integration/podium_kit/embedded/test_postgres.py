import os
import signal
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from embedded_servers import Database
from podium_kit.embedded.errors import StartupFailed
from podium_kit.embedded.postgres import EmbeddedPostgres, InvalidDatabaseName


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(tmp_path / "postgres")
    await server.start()
    yield server
    await server.kill()


async def execute(url: str, statement: str) -> None:
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        await connection.execute(text(statement))
    await engine.dispose()


async def query(url: str, statement: str) -> object:
    engine = create_async_engine(url)
    async with engine.connect() as connection:
        value = (await connection.execute(text(statement))).scalar()
    await engine.dispose()
    return value


async def database_with_a_row(server: EmbeddedPostgres) -> str:
    url = await server.create_database("notes")
    await execute(url, "CREATE TABLE note AS SELECT 'kept' AS body")
    return url


async def test_rows_survive_a_restart(server: EmbeddedPostgres) -> None:
    url = await database_with_a_row(server)
    await server.restart()
    assert await query(url, "SELECT body FROM note") == "kept"


async def test_rows_survive_kill_9_of_the_whole_server(server: EmbeddedPostgres) -> None:
    url = await database_with_a_row(server)
    await server.kill()
    await server.start()
    assert await query(url, "SELECT body FROM note") == "kept"


async def test_rows_survive_kill_9_of_the_postmaster_alone(server: EmbeddedPostgres) -> None:
    url = await database_with_a_row(server)
    assert server.process.pid is not None
    os.kill(server.process.pid, signal.SIGKILL)
    await server.start()
    assert await query(url, "SELECT body FROM note") == "kept"


async def test_creating_a_database_twice_keeps_it(server: EmbeddedPostgres) -> None:
    url = await database_with_a_row(server)
    assert await server.create_database("notes") == url
    assert await query(url, "SELECT body FROM note") == "kept"


async def test_a_database_name_with_a_quote_is_rejected(server: EmbeddedPostgres) -> None:
    with pytest.raises(InvalidDatabaseName, match="lower-case letters"):
        await server.create_database('notes"; DROP DATABASE notes; --')


async def test_commits_are_durable(server: EmbeddedPostgres) -> None:
    url = server.dsn("postgres")
    assert await query(url, "SHOW fsync") == "on"
    assert await query(url, "SHOW synchronous_commit") == "on"


async def test_vectors_can_be_compared(server: EmbeddedPostgres) -> None:
    url = await server.create_database("vectors")
    await execute(url, "CREATE EXTENSION vector")
    assert await query(url, "SELECT '[0,3]'::vector <-> '[4,0]'::vector") == 5.0


async def test_a_state_folder_longer_than_a_socket_path_works(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / ("long" * 30) / "postgres")
    await server.start()
    assert await query(server.dsn("postgres"), "SELECT 1") == 1
    await server.stop()


@pytest.mark.parametrize("mode", [0o700, 0o701])
async def test_it_passes_folders_that_others_may_not_read(tmp_path: Path, mode: int) -> None:
    # What everybody may does not hold for a member of the folder's group.
    (tmp_path / "private").mkdir()
    server = EmbeddedPostgres(tmp_path / "private" / "data")
    await server.start()
    await server.stop()
    (tmp_path / "private").chmod(mode)
    again = EmbeddedPostgres(tmp_path / "private" / "data")
    await again.start()
    assert await again.create_database("reached")
    await again.stop()


async def test_folders_on_its_way_stay_closed_to_everybody(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    server = EmbeddedPostgres(private / "state" / "data")
    await server.start()
    assert await server.create_database("reached")
    await server.stop()
    for folder in (private, private / "state" / "data"):
        assert not folder.stat().st_mode & (stat.S_IRWXO | stat.S_IRGRP | stat.S_IWGRP), folder


async def test_a_second_server_on_the_same_folder_is_rejected(
    server: EmbeddedPostgres, tmp_path: Path
) -> None:
    with pytest.raises(StartupFailed, match=f"process {server.process.pid} already serves"):
        await EmbeddedPostgres(tmp_path / "postgres").start()
    assert await server.answers()


async def test_nothing_is_left_running_after_stop(server: EmbeddedPostgres) -> None:
    family = psutil.Process(server.process.pid).children(recursive=True)
    await server.stop()
    assert family
    assert not [process for process in family if process.is_running()]
    assert not await server.answers()


async def test_the_database_fixture_gives_separate_databases(
    database: Database,
) -> None:
    first, second = await database(), await database()
    await execute(first, "CREATE TABLE note (body text)")
    assert await query(second, "SELECT to_regclass('note')") is None
