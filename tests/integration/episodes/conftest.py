"""Servers shared by the tests of this folder, and a platform per test."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from integration.episodes.platform_under_test import EpisodesPlatform, run_platform
from podium_kit.embedded import EmbeddedKafka, EmbeddedTemporal, free_port


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def temporal(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EmbeddedTemporal]:
    server = EmbeddedTemporal(tmp_path_factory.mktemp("temporal"), free_port())
    await server.start()
    yield server
    await server.stop()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def kafka(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EmbeddedKafka]:
    server = EmbeddedKafka(free_port(), log_path=tmp_path_factory.mktemp("kafka") / "kafka.log")
    await server.start()
    yield server
    await server.stop()


@pytest_asyncio.fixture
async def platform(
    database: Callable[[], Awaitable[str]],
    temporal: EmbeddedTemporal,
    kafka: EmbeddedKafka,
    tmp_path: Path,
) -> AsyncIterator[EpisodesPlatform]:
    async with run_platform(await database(), temporal, kafka, tmp_path) as running:
        yield running
