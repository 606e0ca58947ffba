import asyncio
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import aiohttp

from bench.episodes.processor import processor_seconds
from podium_kit.embedded.ports import accepts_connections

Processes = Callable[[], Mapping[str, int]]
QUESTION = [{"role": "user", "content": "what is 6 x 7?"}]


@dataclass(frozen=True)
class Endpoint:
    """An address, the processes whose time counts by name, and the one that talks to clients;
    none for the model server itself."""

    name: str
    base_url: str
    key: str
    model: str
    processes: Processes = dict
    front: str = ""


@dataclass(frozen=True)
class Measured:
    """Figures of one endpoint at one concurrency; processor time is of all its processes, and of
    the one that talks to clients, in milliseconds a request."""

    per_second: float
    p50_ms: float
    p99_ms: float
    processor_ms: float
    front_ms: float
    failed: int
    by_process: Mapping[str, float]

    def __str__(self) -> str:
        return (
            f"{self.per_second:.1f} requests/s, p50 {self.p50_ms:.1f} ms, p99 {self.p99_ms:.1f} ms,"
            f" {self.processor_ms:.2f} ms of processor ({self.front_ms:.2f} in front),"
            f" {self.failed} failed"
        )


async def listens(port: int) -> bool:
    return accepts_connections(port)


async def measure(endpoint: Endpoint, concurrent: int, total: int) -> Measured:
    """After as many requests again, at least 20, that do not count."""
    headers = {"authorization": f"Bearer {endpoint.key}"}
    # Shorter than servers keep idle connections: the next request would meet a closed one.
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=2)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
        await _run(session, endpoint, concurrent, max(20, total // 4))
        before, started = _spent(endpoint), time.perf_counter()
        seconds, failed = await _run(session, endpoint, concurrent, total)
        wall_s = time.perf_counter() - started
        after = _spent(endpoint)
    spent = {name: 1000 * (after[name] - before[name]) / total for name in after}
    ordered = sorted(seconds)
    return Measured(
        per_second=total / wall_s,
        p50_ms=1000 * statistics.median(ordered),
        p99_ms=1000 * ordered[min(total - 1, round(0.99 * total))],
        processor_ms=sum(spent.values()),
        front_ms=spent.get(endpoint.front, 0.0),
        failed=failed,
        by_process=spent,
    )


async def statuses(endpoint: Endpoint, concurrent: int, total: int, **fields: object) -> list[int]:
    gate, url = asyncio.Semaphore(concurrent), f"{endpoint.base_url}/chat/completions"
    body = {"model": endpoint.model, "messages": QUESTION, **fields}
    headers = {"authorization": f"Bearer {endpoint.key}"}
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:

        async def one() -> int:
            async with gate, session.post(url, json=body) as reply:
                await reply.read()
                return reply.status

        return await asyncio.gather(*(one() for _ in range(total)))


async def _answered(session: aiohttp.ClientSession, url: str, body: dict[str, object]) -> bool:
    """Returns whether the answer is right; a connection that was closed meanwhile is opened
    again.
    """
    try:
        async with session.post(url, json=body) as reply:
            said = await reply.json()
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
        async with session.post(url, json=body) as reply:
            said = await reply.json()
    return reply.ok and "42" in said["choices"][0]["message"]["content"]


async def first_token_ms(endpoint: Endpoint, total: int) -> float:
    """The median time to the first text of a stream, of one request after the other."""
    headers = {"authorization": f"Bearer {endpoint.key}"}
    body = {"model": endpoint.model, "messages": QUESTION, "stream": True}
    url, seconds = f"{endpoint.base_url}/chat/completions", []
    async with aiohttp.ClientSession(headers=headers) as session:
        for _ in range(total):
            started = time.perf_counter()
            async with session.post(url, json=body) as reply:
                async for line in reply.content:
                    if b'"content": "{' in line or b'"content":"{' in line:
                        seconds.append(time.perf_counter() - started)
                await reply.read()
    return 1000 * statistics.median(seconds)


def _spent(endpoint: Endpoint) -> dict[str, float]:
    return {name: processor_seconds([pid]) for name, pid in endpoint.processes().items()}


async def _run(
    session: aiohttp.ClientSession, endpoint: Endpoint, concurrent: int, total: int
) -> tuple[list[float], int]:
    gate, seconds, failed = asyncio.Semaphore(concurrent), [], 0
    url, body = f"{endpoint.base_url}/chat/completions", {"model": endpoint.model}

    async def one() -> None:
        nonlocal failed
        async with gate:
            started = time.perf_counter()
            right = await _answered(session, url, {**body, "messages": QUESTION})
            seconds.append(time.perf_counter() - started)
            failed += not right

    await asyncio.gather(*(one() for _ in range(total)))
    return seconds, failed
