import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import quantiles
from typing import Any

import grpc
import psutil

from builders.ledger_operations import LedgerOperations
from callers import KeyPair, make_identity, make_key_pair, write_verify_keys
from integration.cost_ledger.builders import make_capture, make_price, make_record, make_reserve
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium.ledger.v1.price_book_service_pb2_grpc import PriceBookServiceStub
from podium_kit.embedded.ports import accepts_connections, free_port
from podium_kit.embedded.process import ManagedProcess
from podium_kit.rpc.identity import Scope

IN_FLIGHT = 64
SECONDS = 8.0
TENANTS = 100
Metadata = tuple[tuple[str, str], ...]
Call = Callable[[Metadata], Awaitable[object]]


@dataclass(frozen=True)
class Load:
    count: int
    per_second: float
    p50_ms: float
    p99_ms: float

    def __str__(self) -> str:
        return f"{self.per_second:.0f}/s, p50 {self.p50_ms:.1f} ms, p99 {self.p99_ms:.1f} ms"


@dataclass
class Service:
    process: ManagedProcess
    stub: LedgerOperations
    keys: KeyPair

    def __post_init__(self) -> None:
        self.tokens = [self.token(f"bench-{number}") for number in range(1, TENANTS + 1)]

    def token(self, tenant: str, *scopes: Scope) -> Metadata:
        identity = make_identity(tenant, "bench", scopes or (Scope.LEDGER_WRITE, Scope.SPEND_READ))
        return (("authorization", f"Bearer {self.keys.signer().sign(identity)}"),)

    async def load(self, call: Call, tenants: int, seconds: float = SECONDS) -> Load:
        latencies: list[float] = []
        numbers = count()
        start = time.perf_counter()

        async def keep_calling() -> None:
            while (asked := time.perf_counter()) - start < seconds:
                await call(self.tokens[next(numbers) % tenants])
                latencies.append(time.perf_counter() - asked)

        await asyncio.gather(*(keep_calling() for _ in range(IN_FLIGHT)))
        per_second = len(latencies) / (time.perf_counter() - start)
        centiles = [1000 * value for value in quantiles(latencies, n=100)]
        return Load(len(latencies), per_second, centiles[49], centiles[98])

    async def post(self, metadata: Metadata) -> None:
        await self.stub.Record(make_record(), metadata=metadata)

    async def pair(self, metadata: Metadata) -> None:
        request = make_reserve(dispatched=True)
        await self.stub.Reserve(request, metadata=metadata)
        await self.stub.Capture(make_capture(request.key), metadata=metadata)

    async def batch(self, metadata: Metadata) -> None:
        """A hundred captures at once, and a hundred holds before them."""
        reserves = [make_reserve(dispatched=True) for _ in range(100)]
        holds = [pb.Operation(reserve=each) for each in reserves]
        captures = [pb.Operation(capture=make_capture(each.key)) for each in reserves]
        for operations in (holds, captures):
            await self.stub.Apply(pb.ApplyRequest(operations=operations), metadata=metadata)

    def cpu_s(self) -> float:
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)


@asynccontextmanager
async def running_service(service_url: str, module: str = "cost_ledger") -> AsyncIterator[Service]:
    """`python -m cost_ledger`, or another module, with the price of GPT-5 in its book."""
    keys, port = make_key_pair(), free_port()
    with tempfile.TemporaryDirectory(prefix="podium-bench-") as folder:
        process = _process(module, Path(folder), port, service_url, keys)
        process.start()
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
        try:
            await process.wait_ready(lambda: asyncio.to_thread(accepts_connections, port), 30)
            stub: Any = LedgerOperations(channel)
            service = Service(process, stub, keys)
            await _add_price(channel, service.token("bench-1", Scope.PLATFORM_ADMIN))
            yield service
        finally:
            await channel.close(None)
            await process.kill()


def _process(
    module: str, folder: Path, port: int, service_url: str, keys: KeyPair
) -> ManagedProcess:
    settings = {
        "COST_LEDGER_PORT": str(port),
        "COST_LEDGER_DATABASE_URL": service_url,
        "COST_LEDGER_VERIFY_KEYS_FILE": str(write_verify_keys(folder / "keys.json", [keys])),
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }
    command = [sys.executable, "-m", module]
    return ManagedProcess("cost_ledger", command, log_path=folder / "ledger.log", env=settings)


async def _add_price(channel: grpc.aio.Channel, admin: Metadata) -> None:
    prices: Any = PriceBookServiceStub(channel)
    if (await prices.ListPrices(prices_pb.ListPricesRequest(), metadata=admin)).prices:
        return  # an earlier service of this run has priced it
    request = prices_pb.CreatePricesRequest(specs=[make_price()])
    await prices.CreatePrices(request, metadata=admin)
