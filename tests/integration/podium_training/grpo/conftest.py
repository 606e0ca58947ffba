"""A broker for the tests of this folder."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from podium_kit.embedded import EmbeddedKafka, free_port


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def kafka(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EmbeddedKafka]:
    server = EmbeddedKafka(free_port(), log_path=tmp_path_factory.mktemp("kafka") / "kafka.log")
    await server.start()
    yield server
    await server.stop()
