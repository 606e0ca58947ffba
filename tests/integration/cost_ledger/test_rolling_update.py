import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TypeVar

import grpc
import pytest

from callers import make_key_pair, write_verify_keys
from embedded_servers import Database
from integration.cost_ledger.builders import make_budget, make_capture, make_price, make_reserve
from integration.cost_ledger.running_ledger import (
    Client,
    RunningLedger,
    as_service,
    findings_of,
    running_ledger,
)
from last_release import code_of_last_release
from podium.ledger.v1 import budget_service_pb2 as budgets_pb
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium_kit.embedded.ports import accepts_connections, free_port
from podium_kit.embedded.process import ManagedProcess
from podium_kit.rpc.identity import Scope

pytestmark = pytest.mark.chaos

Answer = TypeVar("Answer")
CALLERS, CALLS = 8, 12
HELD, CHARGED = Decimal("0.01125"), Decimal("0.00225")
# Of the 96 calls of one round about half fit.
FITTING = 50
# INTERNAL is what versions before this one answer to a statement that a migration made stale.
AGAIN = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL}


@asynccontextmanager
async def ledger_before(folder: Path, database_url: str) -> AsyncIterator[RunningLedger]:
    """The last release as a process, migrating as it did."""
    books = RunningLedger(free_port(), database_url, make_key_pair())
    keys_file = write_verify_keys(folder / "before.json", [books.keys])
    settings = {
        "COST_LEDGER_PORT": str(books.port),
        "COST_LEDGER_DATABASE_URL": as_service(database_url),
        "COST_LEDGER_OWNER_DATABASE_URL": database_url,
        "COST_LEDGER_VERIFY_KEYS_FILE": str(keys_file),
        "PYTHONPATH": os.pathsep.join(code_of_last_release(folder)),
    }
    argv = [sys.executable, "-m", "cost_ledger"]
    process = ManagedProcess("cost_ledger", argv, log_path=folder / "ledger.log", env=settings)
    process.start()
    try:
        await process.wait_ready(lambda: asyncio.to_thread(accepts_connections, books.port), 60)
        yield books
    finally:
        for channel in books.channels:
            await channel.close(None)
        await process.terminate()


async def answered(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    while True:
        try:
            return await ask()
        except grpc.aio.AioRpcError as error:
            assert error.code() in AGAIN, error
            await asyncio.sleep(0.05)


async def load(name: str, *ledgers: RunningLedger) -> int:
    """Calls of one tenant by turns through each ledger; returns how many fitted the budget."""

    async def call(caller: int) -> int:
        held = 0
        for number in range(CALLS):
            key = f"{name}/{caller}/{number}"
            one, other = (ledgers[(caller + number + turn) % len(ledgers)] for turn in (0, 1))
            reserve = partial(clients[one.port].ledger.Reserve, make_reserve(key, dispatched=True))
            if (await answered(reserve)).HasField("hold"):
                held += 1
                await answered(partial(clients[other.port].ledger.Capture, make_capture(key)))
        return held

    clients = {each.port: each.as_() for each in ledgers}
    return sum(await asyncio.gather(*(call(caller) for caller in range(CALLERS))))


async def posted(client: Client) -> Decimal:
    status = await client.status()
    assert Decimal(status.held.amount) == 0
    return Decimal(status.posted.amount)


async def test_both_versions_write_one_journal(database: Database, tmp_path: Path) -> None:
    url = await database("cost_ledger")
    async with AsyncExitStack() as stack:
        before = await stack.enter_async_context(ledger_before(tmp_path, url))
        price = prices_pb.CreatePricesRequest(specs=[make_price()])
        await before.admin().prices.CreatePrices(price)
        limit = str(HELD + CHARGED * (FITTING + CALLERS * CALLS))
        budget = budgets_pb.CreateBudgetRequest(budget=make_budget("cap", limit))
        await before.as_("acme", Scope.TENANT_ADMIN).budgets.CreateBudget(budget)
        held = await load("alone", before)
        assert held == CALLERS * CALLS
        now = await stack.enter_async_context(running_ledger(url, tmp_path))
        # What the version before wrote, this one verifies; and the other way round below.
        assert not await findings_of(now.as_())
        held += await load("both", before, now)
        spent = await posted(now.as_())
        assert spent == CHARGED * held
        # Nothing overshot, and nothing was rejected while it fitted with no other call in flight.
        assert spent + HELD > Decimal(limit) - HELD * CALLERS
        for ledger in (before, now):
            assert not await findings_of(ledger.as_())
