"""Pytest plugin: servers that many folders use, one of each per test process.

What keeps tests apart is theirs: a database, a topic, a namespace or a tenant of their own.
"""

import importlib.util
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest_asyncio
from sqlalchemy import make_url

from episodes.workflows.search_attributes import SEARCH_ATTRIBUTES
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.postgres import EmbeddedPostgres
from podium_kit.embedded.temporal import EmbeddedTemporal
from podium_kit.postgres.migrations import upgrade
from temporary_files import data_folder

Database = Callable[..., Awaitable[str]]
# Everything here is thrown away: a power cut may take it.
THROWN_AWAY = {
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "128MB",
    # With the SQLSTATE, by which wrong statements are found.
    "log_line_prefix": "%m [%p] %e ",
}
# Syntax, unknown column, wrong type, unknown function or operator, unclear type of a parameter:
# errors of a statement's text, which no state of a database explains.
WRONG_STATEMENTS = re.compile(r" 42(?:601|703|804|883|P08|P18) (?:ERROR|STATEMENT): ")


@pytest_asyncio.fixture(scope="session")
async def postgres_server() -> AsyncIterator[EmbeddedPostgres]:
    # Not pytest's own folder: another pytest closes that to the account PostgreSQL runs as.
    with data_folder("postgres") as folder:
        server = EmbeddedPostgres(folder / "data", settings=THROWN_AWAY)
        await server.start()
        yield server
        await server.stop()
        wrong = wrong_statements(server.process.log_path)
        # Some are of background tasks, whose failures no test asks for.
        assert not wrong, "statements that PostgreSQL cannot run:\n" + "\n".join(wrong)


def wrong_statements(log: Path) -> list[str]:
    lines = filter(WRONG_STATEMENTS.search, log.read_text(errors="replace").splitlines())
    return list(dict.fromkeys(WRONG_STATEMENTS.split(line)[-1].strip() for line in lines))


@pytest_asyncio.fixture(scope="session")
async def kafka() -> AsyncIterator[EmbeddedKafka]:
    with data_folder("kafka") as folder:
        server = EmbeddedKafka(free_port(), log_path=folder / "kafka.log")
        await server.start()
        yield server
        await server.stop()


@pytest_asyncio.fixture(scope="session")
async def temporal() -> AsyncIterator[EmbeddedTemporal]:
    with data_folder("temporal") as folder:
        server = EmbeddedTemporal(folder, free_port(), search_attributes=SEARCH_ATTRIBUTES)
        await server.start()
        yield server
        await server.stop()


class Databases:
    """Makes databases on one server; a service's migrations run once, into a template."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        self._server = server
        self._templates: dict[str, str] = {}

    async def create(self, service: str = "") -> str:
        """The URL of a new database: empty, or as the migrations of that service leave it."""
        name = f"test_{uuid4().hex}"
        if not service:
            return await self._server.create_database(name)
        template = self._templates.get(service) or await self._migrated(service)
        # Without fsync, copying files costs half of what logging their pages does.
        await self._execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        return self._server.dsn(name)

    async def drop(self, url: str) -> None:
        await self._server.drop_database(make_url(url).database or "")

    async def _migrated(self, service: str) -> str:
        name = f"template_{service}_{uuid4().hex[:8]}"
        package = importlib.util.find_spec(service)
        assert package and package.origin, service
        url = await self._server.create_database(name)
        await upgrade(url, Path(package.origin).parent / "migrations")
        self._templates[service] = name
        return name

    async def _execute(self, statement: str) -> None:
        url = self._server.dsn("postgres").replace("+asyncpg", "")
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


@pytest_asyncio.fixture(scope="session")
async def databases(postgres_server: EmbeddedPostgres) -> Databases:
    """Databases for fixtures of a wider scope than one test, kept until the server ends."""
    return Databases(postgres_server)


@pytest_asyncio.fixture
async def database(databases: Databases) -> AsyncIterator[Database]:
    """`url = await database("gateway")` is a database of this test alone, with its tables.

    Without a service it is empty. The URL is SQLAlchemy's (`postgresql+asyncpg://`).
    """
    created: list[str] = []

    async def create(service: str = "") -> str:
        created.append(await databases.create(service))
        return created[-1]

    yield create
    for url in created:
        await databases.drop(url)
