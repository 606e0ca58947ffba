"""One ledger with two replicas for all complaints; every test is a tenant of its own."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import pytest_asyncio

from integration.cost_ledger.builders import make_price
from integration.cost_ledger.complaints.books import Books, Replicas
from integration.cost_ledger.running_ledger import running_ledger
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium_kit.embedded import EmbeddedPostgres


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def replicas(postgres_server: EmbeddedPostgres) -> AsyncIterator[Replicas]:
    """Two servers of one ledger, with the price of GPT-5 in its book."""
    name = f"complaints_{uuid4().hex}"
    url = await postgres_server.create_database(name)
    async with AsyncExitStack() as stack:
        started = []
        for _ in range(2):
            folder = stack.enter_context(TemporaryDirectory(prefix="podium-ledger-"))
            started.append(await stack.enter_async_context(running_ledger(url, Path(folder))))
        await (
            started[0]
            .admin()
            .prices.CreatePrices(prices_pb.CreatePricesRequest(specs=[make_price()]))
        )
        yield Replicas(*started)
    await postgres_server.drop_database(name)


@pytest_asyncio.fixture(loop_scope="session")
async def books(replicas: Replicas) -> Books:
    """The books of a tenant nobody else has."""
    return Books(replicas, f"tenant-{uuid4().hex[:12]}")
