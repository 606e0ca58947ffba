"""The load that every peer runs: episodes of model calls with a tool call between each two.

Runs in the peer's own environment: nothing of the project can be imported here.
"""

import asyncio
import json
import resource
import statistics
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

Episode = Callable[[str], Awaitable[str]]
URL, DSN = sys.argv[1], sys.argv[2]
PLAN = {int(concurrent): int(total) for concurrent, total in json.loads(sys.argv[3]).items()}
ANSWER = "42"


class Model:
    session: aiohttp.ClientSession

    async def ask(self, episode: str, turn: int, messages: list[str]) -> dict[str, Any]:
        body = {
            "model": "bench",
            "messages": [{"role": "user", "content": text} for text in messages],
        }
        headers = {"X-Request-Id": f"{episode}/{turn}/model/0"}
        async with self.session.post(URL, json=body, headers=headers) as reply:
            reply.raise_for_status()
            found = await reply.json()
        action: dict[str, Any] = json.loads(found["choices"][0]["message"]["content"])
        return action


MODEL = Model()


def calculate(expression: str) -> str:
    left, right = expression.split("*")
    return str(int(left) * int(right))


async def measure(episode: Episode) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        MODEL.session = session
        for concurrent, total in PLAN.items():
            await _load(episode, concurrent, concurrent)
            sys.stdout.write(json.dumps(await _load(episode, concurrent, total)) + "\n")
            sys.stdout.flush()


async def _load(episode: Episode, concurrent: int, total: int) -> dict[str, float]:
    gate, seconds, wrong = asyncio.Semaphore(concurrent), [], 0

    async def one() -> None:
        nonlocal wrong
        async with gate:
            started = time.perf_counter()
            wrong += await episode(str(uuid.uuid4())) != ANSWER
            seconds.append(time.perf_counter() - started)

    started, spent = time.perf_counter(), time.process_time()
    await asyncio.gather(*(one() for _ in range(total)))
    wall, ordered = time.perf_counter() - started, sorted(seconds)
    return {
        "concurrent": concurrent,
        "per_second": total / wall,
        "p50_s": statistics.median(ordered),
        "p99_s": ordered[min(total - 1, round(0.99 * total))],
        "failed": wrong,
        "processor_ms": 1000 * (time.process_time() - spent) / total,
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
