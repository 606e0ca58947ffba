"""A registry per test, on a database of its own."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest_asyncio

from integration.tool_registry.running_registry import RunningRegistry, running_registry


@pytest_asyncio.fixture
async def registry(
    database: Callable[[], Awaitable[str]], tmp_path: Path
) -> AsyncIterator[RunningRegistry]:
    async with running_registry(await database(), tmp_path) as running:
        yield running
