from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from embedded_servers import Database
from integration.tool_registry.running_registry import RunningRegistry, running_registry


@pytest_asyncio.fixture
async def registry(database: Database, tmp_path: Path) -> AsyncIterator[RunningRegistry]:
    async with running_registry(await database("tool_registry"), tmp_path) as running:
        yield running
