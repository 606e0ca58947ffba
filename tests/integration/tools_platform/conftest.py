from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from embedded_servers import Database
from integration.tools_platform.running_platform import ToolsPlatform, running_platform


@pytest_asyncio.fixture
async def platform(database: Database, tmp_path: Path) -> AsyncIterator[ToolsPlatform]:
    async with running_platform(database, tmp_path) as running:
        yield running
