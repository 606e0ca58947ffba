from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from embedded_servers import Databases
from integration.misbehaviour.charged_calls import ChargedCalls
from integration.tools_platform.running_platform import ToolsPlatform, running_platform


@pytest_asyncio.fixture(scope="package")
async def platform(
    databases: Databases, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ToolsPlatform]:
    async with running_platform(
        databases.create, tmp_path_factory.mktemp("misbehaviour")
    ) as running:
        yield running


@pytest_asyncio.fixture(scope="package")
async def calls(platform: ToolsPlatform) -> ChargedCalls:
    return await ChargedCalls.through(platform)
