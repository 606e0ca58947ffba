from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc
import pytest
import pytest_asyncio
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from callers import client_channel, make_key_pair, write_verify_keys
from embedded_servers import Database
from podium.adapters.v1 import corpus_service_pb2_grpc as rpc
from podium_kit.rpc.identity import Identity
from podium_kit.rpc.server import Service, running_server
from podium_kit.rpc.settings import ServerSettings
from tool_adapters.corpus.service import Corpora
from tool_adapters.corpus.servicer import CorpusServicer
from tool_adapters.corpus.store import PostgresCorpusStore

Client = Callable[[Identity], "rpc.CorpusServiceAsyncStub"]


@pytest_asyncio.fixture
async def engine(database: Database) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(await database("tool_adapters"))
    yield engine
    await engine.dispose()


@pytest.fixture
def corpora(engine: AsyncEngine) -> Corpora:
    return Corpora(PostgresCorpusStore(engine))


@pytest_asyncio.fixture
async def client(corpora: Corpora, tmp_path: Path) -> AsyncIterator[Client]:
    pair = make_key_pair()
    settings = ServerSettings(port=0, verify_keys_file=write_verify_keys(tmp_path / "keys", [pair]))
    service = Service(
        rpc.add_CorpusServiceServicer_to_server,
        CorpusServicer(corpora),
        "podium.adapters.v1.CorpusService",
    )
    channels: list[grpc.aio.Channel] = []

    async with running_server(settings, [service], {}) as port:

        def stub(identity: Identity) -> "rpc.CorpusServiceAsyncStub":
            channels.append(client_channel(port, identity, pair))
            return rpc.CorpusServiceStub(channels[-1])

        yield stub
        for channel in channels:
            await channel.close(None)
