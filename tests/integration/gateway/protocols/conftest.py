from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from embedded_servers import Databases
from integration.gateway.gateway_under_test import Gateway, run_gateway


@pytest_asyncio.fixture(scope="session")
async def shared_gateway(
    databases: Databases, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Gateway]:
    folder = tmp_path_factory.mktemp("gateway")
    async with run_gateway(await databases.create("gateway"), folder) as running:
        yield running


@pytest.fixture
def gateway(shared_gateway: Gateway) -> Gateway:
    shared_gateway.episodes.__init__()  # type: ignore[misc]
    shared_gateway.tools.__init__()  # type: ignore[misc]
    return shared_gateway
