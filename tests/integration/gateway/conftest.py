from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from embedded_servers import Database
from integration.gateway.gateway_under_test import Gateway, run_gateway


@pytest_asyncio.fixture
async def gateway(database: Database, tmp_path: Path) -> AsyncIterator[Gateway]:
    async with run_gateway(await database("gateway"), tmp_path) as running:
        yield running
