from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from embedded_servers import Database
from integration.cost_ledger.builders import make_price
from integration.cost_ledger.running_ledger import Client, RunningLedger, running_ledger
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium_kit.rpc.identity import Scope


@pytest_asyncio.fixture
async def ledger(database: Database, tmp_path: Path) -> AsyncIterator[RunningLedger]:
    async with running_ledger(await database("cost_ledger"), tmp_path) as running:
        await running.admin().prices.CreatePrices(
            prices_pb.CreatePricesRequest(specs=[make_price()])
        )
        yield running


@pytest_asyncio.fixture
async def worker(ledger: RunningLedger) -> Client:
    return ledger.as_("acme")


@pytest_asyncio.fixture
async def admin(ledger: RunningLedger) -> Client:
    return ledger.as_("acme", Scope.TENANT_ADMIN)
