"""One platform per test."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest_asyncio

from integration.tools_platform.running_platform import ToolsPlatform, running_platform


@pytest_asyncio.fixture
async def platform(
    database: Callable[[], Awaitable[str]], tmp_path: Path
) -> AsyncIterator[ToolsPlatform]:
    async with running_platform(database, tmp_path) as running:
        yield running
