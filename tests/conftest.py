"""Fixtures every test may use: a real PostgreSQL server and fresh databases in it."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import pytest_asyncio

from podium_kit.embedded import EmbeddedPostgres

# Otherwise gRPC restarts its threads in a forked child, which dies before it can exec.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def postgres_server() -> AsyncIterator[EmbeddedPostgres]:
    """One server per pytest process (per xdist worker), gone with the session."""
    # Not pytest's own folder: another pytest closes that to the account PostgreSQL runs as.
    with TemporaryDirectory(prefix="podium-postgres-") as folder:
        server = EmbeddedPostgres(Path(folder) / "data")
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
