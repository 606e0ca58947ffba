import asyncio

import pytest

from cost_ledger.store_engine import open_journal_pool
from podium_kit.postgres.engine import open_engine
from podium_kit.postgres.urls import UnknownOption, connect_arguments, driver_url

URL = "postgresql://ledger:p%40ss@db.example.com:6432/cost_ledger?sslmode=require"


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+asyncpg"])
def test_a_service_takes_the_url_that_libpq_takes(scheme: str) -> None:
    engine = open_engine(f"{scheme}{URL.removeprefix('postgresql')}\n")
    assert engine.dialect.driver == "asyncpg"
    assert connect_arguments(engine.url) == {
        "host": "db.example.com",
        "port": 6432,
        "user": "ledger",
        "password": "p@ss",
        "database": "cost_ledger",
        "ssl": "require",
    }


def test_a_socket_of_this_machine_stays_one() -> None:
    url = driver_url("postgresql+asyncpg://postgres@/ledger?host=/run/postgres")
    assert connect_arguments(url)["host"] == "/run/postgres"


@pytest.mark.parametrize(
    ("option", "fix"),
    [
        ("sslrootcert", "leave it out and set PGSSLROOTCERT instead"),
        ("channel_binding", "leave it out$"),
    ],
)
def test_an_option_that_only_libpq_knows_is_rejected_by_name(option: str, fix: str) -> None:
    with pytest.raises(UnknownOption, match=f"option {option}, .*; {fix}"):
        open_engine(f"{URL}&{option}=x")


@pytest.mark.parametrize("option", ["sslmode", "ssl"])
async def test_the_ledgers_own_pool_asks_for_tls_where_the_url_does(option: str) -> None:
    """Every PostgreSQL would reject `ssl` as a parameter of the session."""

    async def without_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(8)
        writer.write(b"N")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(without_tls, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        url = f"postgresql+asyncpg://ledger@127.0.0.1:{port}/ledger?{option}=require"
        async with await open_journal_pool(url) as pool:
            with pytest.raises(ConnectionError, match="rejected SSL upgrade"):
                await pool.acquire(timeout=10)
