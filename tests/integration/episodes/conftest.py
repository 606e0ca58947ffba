from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from embedded_servers import Database, Databases
from episodes.server import MIGRATIONS
from integration.episodes.platform_under_test import Platform, run_platform
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.temporal import EmbeddedTemporal
from podium_kit.postgres.migrations import upgrade
from temporary_files import server_folder


@pytest_asyncio.fixture(scope="session")
async def shared_platform(
    databases: Databases, temporal: EmbeddedTemporal, kafka: EmbeddedKafka
) -> AsyncIterator[Platform]:
    url = await databases.create("episodes")
    with server_folder("episodes") as folder:
        async with run_platform(url, temporal, kafka, folder) as running:
            yield running


@pytest_asyncio.fixture
async def platform(shared_platform: Platform) -> AsyncIterator[Platform]:
    platform = shared_platform.for_new_tenant()
    yield platform
    await platform.end_episodes()


@pytest_asyncio.fixture
async def own_platform(
    database: Database, temporal: EmbeddedTemporal, kafka: EmbeddedKafka, tmp_path: Path
) -> AsyncIterator[Platform]:
    """A platform of one test: it may be killed, and its topic holds its own records alone."""
    async with run_platform(await database("episodes"), temporal, kafka, tmp_path) as running:
        yield running


@pytest_asyncio.fixture
async def engine(database: Database) -> AsyncIterator[AsyncEngine]:
    url = await database("episodes")
    await upgrade(url, MIGRATIONS)
    engine = create_async_engine(url)
    yield engine
    await engine.dispose()
