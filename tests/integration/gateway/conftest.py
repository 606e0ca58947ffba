"""A gateway per test."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest_asyncio

from integration.gateway.gateway_under_test import GatewayUnderTest, run_gateway


@pytest_asyncio.fixture
async def gateway(
    database: Callable[[], Awaitable[str]], tmp_path: Path
) -> AsyncIterator[GatewayUnderTest]:
    async with run_gateway(await database(), tmp_path) as running:
        yield running
