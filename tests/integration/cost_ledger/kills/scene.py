import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from callers import make_key_pair, write_verify_keys
from integration.cost_ledger.builders import make_price
from integration.cost_ledger.kills.caller import SKU, TENANT
from integration.cost_ledger.kills.provider import Provider
from integration.cost_ledger.running_ledger import Client, RunningLedger, as_service
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium_kit.embedded.ports import accepts_connections, free_port
from podium_kit.embedded.postgres import EmbeddedPostgres
from podium_kit.embedded.process import ManagedProcess
from podium_kit.rpc.identity import Scope

TESTS = Path(__file__).parents[3]
PRICE = "0.0003"


@dataclass
class Scene:
    postgres: EmbeddedPostgres
    ledger: ManagedProcess
    caller: ManagedProcess
    provider: Provider
    books: RunningLedger

    async def kill(self, victim: str) -> None:
        if victim == "postgres":
            await self.postgres.kill()
            await self.postgres.start()
            return
        process = self.ledger if victim == "ledger" else self.caller
        await process.kill()
        process.start()

    async def finish(self) -> None:
        while status := await self.caller.wait():
            assert status == -signal.SIGKILL, self.caller.log_tail()
            await asyncio.sleep(0.05)

    def reader(self) -> Client:
        return self.books.as_(TENANT, Scope.TENANT_ADMIN)


@asynccontextmanager
async def scene(folder: Path, calls: int, hold_s: float = 3600.0) -> AsyncIterator[Scene]:
    postgres, provider = EmbeddedPostgres(folder / "postgres"), Provider()
    keys, port = make_key_pair(), free_port()
    signing_key = folder / "caller.pem"
    signing_key.write_text(keys.private_pem)
    await postgres.start()
    database_url = await postgres.create_database("ledger")
    verify = write_verify_keys(folder / "verify.json", [keys])
    ledger = _ledger(folder, port, database_url, verify)
    books = RunningLedger(port, database_url, keys)
    async with provider.serve() as url:
        caller = _process(
            "integration.cost_ledger.kills.caller",
            folder,
            {},
            *("--ledger", f"127.0.0.1:{port}", "--signing-key", str(signing_key)),
            *("--key-id", keys.key_id, "--provider", url),
            *("--calls", str(calls), "--hold-s", str(hold_s)),
        )
        ledger.start()
        try:
            await ledger.wait_ready(lambda: asyncio.to_thread(accepts_connections, port), 30)
            made = Scene(postgres, ledger, caller, provider, books)
            await _price_and_limit(made)
            yield made
        finally:
            for channel in books.channels:
                await channel.close(None)
            for process in (caller, ledger):
                await process.kill()
            await postgres.stop()


async def _price_and_limit(scene: Scene) -> None:
    price = make_price(SKU, {"call": (PRICE, "1")})
    await scene.books.admin().prices.CreatePrices(prices_pb.CreatePricesRequest(specs=[price]))
    await scene.reader().add_budget(limit="1000")


def _ledger(folder: Path, port: int, database_url: str, verify_keys: Path) -> ManagedProcess:
    settings = {
        "COST_LEDGER_PORT": str(port),
        "COST_LEDGER_DATABASE_URL": as_service(database_url),
        "COST_LEDGER_OWNER_DATABASE_URL": database_url,
        "COST_LEDGER_VERIFY_KEYS_FILE": str(verify_keys),
        "COST_LEDGER_SWEEP_INTERVAL_S": "0.2",
    }
    return _process("cost_ledger", folder, settings)


def _process(
    module: str, folder: Path, settings: dict[str, str], *arguments: str
) -> ManagedProcess:
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    return ManagedProcess(
        module,
        [sys.executable, "-m", module, *arguments],
        log_path=folder / f"{module}.log",
        env={**settings, "PYTHONPATH": path},
    )
