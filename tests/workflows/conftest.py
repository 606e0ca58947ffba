from collections.abc import AsyncIterator

import pytest_asyncio

from podium_kit.embedded.ports import free_port
from podium_kit.embedded.temporal import EmbeddedTemporal
from temporary_files import data_folder


@pytest_asyncio.fixture(scope="session")
async def temporal() -> AsyncIterator[EmbeddedTemporal]:
    with data_folder("temporal") as folder:
        skipping: dict[str, object] = {"frontend.WorkflowTimeSkippingEnabled": True}
        server = EmbeddedTemporal(folder, free_port(), dynamic_config=skipping)
        await server.start()
        yield server
        await server.stop()
