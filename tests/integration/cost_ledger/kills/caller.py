"""A caller as a process that may die anywhere: reserve, call the provider, capture.

It remembers nothing. Started again, it goes through the same keys from the beginning.
"""

import argparse
import asyncio
from datetime import timedelta
from functools import partial
from pathlib import Path

import aiohttp

from builders.ledger_operations import LedgerOperations
from integration.cost_ledger.builders import make_capture, make_reserve, make_usage, quantities
from integration.cost_ledger.running_ledger import until_answered
from podium_kit.rpc.channel import open_channel
from podium_kit.rpc.identity import Identity, Scope
from podium_kit.rpc.tokens import TokenSigner

SKU = "tool/search"
TENANT = "acme"
IN_FLIGHT = 4


class Caller:
    def __init__(
        self, ledger: LedgerOperations, provider: aiohttp.ClientSession, hold_s: float
    ) -> None:
        self._ledger = ledger
        self._provider = provider
        self._hold = timedelta(seconds=hold_s)

    async def call(self, key: str) -> None:
        worst_case = quantities(call=1)
        hold = make_reserve(
            key, sku=SKU, worst_case=worst_case, time_to_live=self._hold, dispatched=True
        )
        await until_answered(partial(self._ledger.Reserve, hold))
        await self._tell("points/reserved")
        await self._tell(f"calls/{key}")
        await self._tell("points/called")
        used = make_capture(key, make_usage(call=1))
        await until_answered(partial(self._ledger.Capture, used))
        await self._tell("points/captured")

    async def _tell(self, path: str) -> None:
        async with self._provider.post(f"/{path}") as reply:
            reply.raise_for_status()


async def call_all(caller: Caller, calls: int) -> None:
    gate = asyncio.Semaphore(IN_FLIGHT)

    async def one(key: str) -> None:
        async with gate:
            await caller.call(key)

    await asyncio.gather(*(one(f"call-{number}") for number in range(calls)))


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ledger", required=True)
    parser.add_argument("--signing-key", type=Path, required=True)
    parser.add_argument("--key-id", required=True)
    parser.add_argument("--provider", required=True)
    parser.add_argument("--calls", type=int, required=True)
    parser.add_argument("--hold-s", type=float, required=True)
    options = parser.parse_args()
    signer = TokenSigner(options.signing_key.read_text(), options.key_id)
    identity = Identity(TENANT, "caller", frozenset({Scope.LEDGER_WRITE}))
    async with (
        open_channel(options.ledger, signer, identity) as channel,
        aiohttp.ClientSession(options.provider) as provider,
    ):
        caller = Caller(LedgerOperations(channel), provider, options.hold_s)
        await call_all(caller, options.calls)


if __name__ == "__main__":
    asyncio.run(main())
