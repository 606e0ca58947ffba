"""One ledger with two replicas for all complaints; every test is a tenant of its own."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from uuid import uuid4

import pytest_asyncio

from embedded_servers import Databases
from integration.cost_ledger.builders import make_price
from integration.cost_ledger.complaints.books import Books, Replicas
from integration.cost_ledger.running_ledger import running_ledger
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from temporary_files import server_folder


@pytest_asyncio.fixture(scope="session")
async def replicas(databases: Databases) -> AsyncIterator[Replicas]:
    """Two servers of one ledger, with the price of GPT-5 in its book."""
    url = await databases.create("cost_ledger")
    async with AsyncExitStack() as stack:
        started = []
        for _ in range(2):
            folder = stack.enter_context(server_folder("ledger"))
            started.append(await stack.enter_async_context(running_ledger(url, folder)))
        await (
            started[0]
            .admin()
            .prices.CreatePrices(prices_pb.CreatePricesRequest(specs=[make_price()]))
        )
        yield Replicas(*started)


@pytest_asyncio.fixture
async def books(replicas: Replicas) -> Books:
    """The books of a tenant no one else has."""
    return Books(replicas, f"tenant-{uuid4().hex[:12]}")
