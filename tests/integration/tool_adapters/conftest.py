from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from embedded_servers import Database
from integration.tool_adapters.adapters_under_test import (
    AdaptersUnderTest,
    run_adapters,
    running_registry,
)
from integration.tool_adapters.servers import WebServer


@pytest_asyncio.fixture
async def adapters(database: Database, tmp_path: Path) -> AsyncIterator[AdaptersUnderTest]:
    async with (
        running_registry() as registry,
        run_adapters(
            await database("tool_adapters"), tmp_path, registry, facts_interval_s=0.05
        ) as running,
    ):
        yield running


@pytest_asyncio.fixture
async def narrow(database: Database, tmp_path: Path) -> AsyncIterator[AdaptersUnderTest]:
    async with (
        running_registry() as registry,
        run_adapters(
            await database("tool_adapters"), tmp_path, registry, provider_concurrency_max=2
        ) as running,
    ):
        yield running


@pytest_asyncio.fixture
async def web() -> AsyncIterator[WebServer]:
    async with WebServer() as server:
        yield server
