import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import grpc
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from integration.cost_ledger.builders import make_price
from integration.cost_ledger.machine.model import Answer
from integration.cost_ledger.running_ledger import RunningLedger, running_ledger
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium_kit.embedded.postgres import EmbeddedPostgres

T = TypeVar("T")

SHIFTED_CLOCK = (
    "CREATE TABLE shifted_clock (seconds double precision NOT NULL)",
    "INSERT INTO shifted_clock VALUES (0)",
    "GRANT SELECT ON shifted_clock TO cost_ledger_service",
    "CREATE OR REPLACE FUNCTION ledger_clock() RETURNS timestamptz VOLATILE LANGUAGE sql RETURN"
    " clock_timestamp() + make_interval(secs => (SELECT seconds FROM shifted_clock))",
)
MAKE_PARTITIONS = "SELECT make_entry_partitions(1)"
OVERDUE = text("SELECT count(*) FROM hold WHERE state = 'open' AND expire_time <= ledger_clock()")


class Driver:
    def __init__(self, runner: asyncio.Runner, ledger: RunningLedger) -> None:
        self._runner = runner
        self._shifted_s = 0.0
        self.ledger = ledger
        # The owner of the schema sees every tenant.
        self._owner = create_async_engine(ledger.database_url)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def answer(self, call: grpc.aio.UnaryUnaryCall[Any, Any]) -> tuple[Answer, Any]:
        return self.run(_answer(call))

    def start(self) -> None:
        self.run(self._execute(*SHIFTED_CLOCK))
        prices = prices_pb.CreatePricesRequest(specs=[make_price()])
        self.run(_answer(self.ledger.admin().prices.CreatePrices(prices)))

    def reset_clock(self) -> None:
        self._shifted_s = 0.0
        self.run(self._execute("UPDATE shifted_clock SET seconds = 0"))

    def shift_clock(self, seconds: float) -> None:
        """Moves the ledger's clock and waits until its sweep has seen the new time.

        A month takes a moment here, so the hourly upkeep that makes partitions would be late.
        """
        self._shifted_s += seconds
        forward = f"UPDATE shifted_clock SET seconds = seconds + {seconds}"
        self.run(self._execute(forward, MAKE_PARTITIONS))
        self.run(self._swept())

    def shifted(self) -> timedelta:
        return timedelta(seconds=self._shifted_s)

    def stop(self) -> None:
        self.run(self._owner.dispose())

    async def _execute(self, *statements: str) -> None:
        async with self._owner.begin() as connection:
            for statement in statements:
                await connection.execute(text(statement))

    async def _swept(self) -> None:
        async with asyncio.timeout(30):
            while True:
                async with self._owner.connect() as connection:
                    if not (await connection.execute(OVERDUE)).scalar_one():
                        return
                await asyncio.sleep(0.02)


async def _answer(call: Any) -> tuple[Answer, Any]:
    try:
        response = await call
    except grpc.aio.AioRpcError as error:
        return Answer[error.code().name], None
    rejected = "rejection" in response.DESCRIPTOR.fields_by_name and response.HasField("rejection")
    return Answer.REJECTED if rejected else Answer.OK, response


async def serve(stack: AsyncExitStack, postgres: EmbeddedPostgres, folder: Path) -> RunningLedger:
    url = await postgres.create_database("ledger_machine")
    return await stack.enter_async_context(running_ledger(url, folder, sweep_interval_s=0.02))
