"""One platform for all tests of this folder: each calls tools of its own."""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
import pytest_asyncio

from integration.misbehaviour.charged_calls import ChargedCalls
from integration.tools_platform.running_platform import ToolsPlatform, running_platform
from podium_kit.embedded import EmbeddedPostgres


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def platform(
    postgres_server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ToolsPlatform]:
    async def database() -> str:
        return await postgres_server.create_database(f"test_{uuid4().hex}")

    async with running_platform(database, tmp_path_factory.mktemp("misbehaviour")) as running:
        yield running


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def calls(platform: ToolsPlatform) -> ChargedCalls:
    return await ChargedCalls.through(platform)
