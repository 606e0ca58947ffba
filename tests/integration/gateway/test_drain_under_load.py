import asyncio
import signal
from asyncio.subprocess import DEVNULL, Process
from collections import Counter
from contextlib import AsyncExitStack, suppress

import httpx
import pytest

from integration.gateway.gateway_under_test import Gateway
from integration.gateway.test_serving import start_command, until_ready
from podium_kit.embedded.ports import free_port

pytestmark = pytest.mark.chaos

CALLERS = 8


class Balancer:
    def __init__(self, key: str, ports: list[int]) -> None:
        headers = {"authorization": f"Bearer {key}"}
        self._replicas = [
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=30)
            for port in ports
        ]
        self._ready: set[int] = set()
        self.answered = 0
        self.lost: Counter[str] = Counter()

    async def probe(self, number: int) -> None:
        """Asks one replica again and again; how slow another is to answer does not matter."""
        while True:
            if await _is_ready(self._replicas[number]):
                self._ready.add(number)
            else:
                self._ready.discard(number)
            await asyncio.sleep(0.05)

    async def call(self) -> None:
        turn = 0
        while True:
            if not self._ready:
                await asyncio.sleep(0.01)
                continue
            turn += 1
            ready = sorted(self._ready)
            await self._ask(self._replicas[ready[turn % len(ready)]])

    async def more(self, count: int) -> None:
        wanted = self.answered + count
        while self.answered < wanted:
            await asyncio.sleep(0.01)

    async def close(self) -> None:
        for replica in self._replicas:
            await replica.aclose()

    async def _ask(self, replica: httpx.AsyncClient) -> None:
        try:
            status = (await replica.get("/v1/models")).status_code
        except httpx.TransportError as error:
            self.lost[repr(error)] += 1
            return
        if status == 200:
            self.answered += 1
        else:
            self.lost[str(status)] += 1


async def _is_ready(replica: httpx.AsyncClient) -> bool:
    with suppress(httpx.TransportError):
        return (await replica.get("/readyz")).status_code == 200
    return False


async def test_gateways_that_end_one_after_the_other_lose_no_request(gateway: Gateway) -> None:
    ports = [free_port(), free_port()]
    async with AsyncExitStack() as stack:
        replicas = [await started(gateway, port, stack) for port in ports]
        balancer = Balancer(gateway.key, ports)
        stack.push_async_callback(balancer.close)
        probes = map(balancer.probe, range(len(ports)))
        for work in (*probes, *(balancer.call() for _ in range(CALLERS))):
            stack.callback(asyncio.create_task(work).cancel)
        await balancer.more(100)
        for position, port in enumerate(ports):
            replicas[position].send_signal(signal.SIGTERM)
            assert await replicas[position].wait() == 0
            await balancer.more(50)
            replicas[position] = await started(gateway, port, stack)
            await balancer.more(50)
        assert not balancer.lost


async def started(gateway: Gateway, port: int, stack: AsyncExitStack) -> Process:
    # The balancer learns that it leaves well before it does; no client exceeds its limit.
    settings = gateway.environment(
        port=port, drain_wait_s=3, drain_grace_s=20, requests_per_s=1e5, request_burst=10**6
    )
    process = await start_command(settings, stderr=DEVNULL)
    stack.callback(_end, process)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
        await until_ready(http)
    return process


def _end(process: Process) -> None:
    if process.returncode is None:
        process.kill()
