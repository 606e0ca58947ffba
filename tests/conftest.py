"""Fixtures every test may use: a real PostgreSQL server and fresh databases in it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import uuid4

import pytest
import pytest_asyncio

from embedded import EmbeddedPostgres


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def postgres_server(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[EmbeddedPostgres]:
    """One server per pytest process (per xdist worker), gone with the session."""
    server = EmbeddedPostgres(tmp_path_factory.mktemp("postgres") / "data")
    await server.start()
    yield server
    await server.stop()


@pytest_asyncio.fixture
async def database(
    postgres_server: EmbeddedPostgres,
) -> AsyncIterator[Callable[[], Awaitable[str]]]:
    """A factory: `url = await database()` creates an empty database for this test alone.

    The URL is SQLAlchemy's (`postgresql+asyncpg://`); the database is dropped afterwards.
    """
    created: list[str] = []

    async def create() -> str:
        created.append(f"test_{uuid4().hex}")
        return await postgres_server.create_database(created[-1])

    yield create
    for name in created:
        await postgres_server.drop_database(name)
