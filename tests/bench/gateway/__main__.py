"""`make bench-gateway`: what a request costs through the gateway, beside LiteLLM's proxy.

The same scripted model server, client and machine in one run: alone, through a registered
language model as `model: "tool/NAME"` (policy, durable hold, capture, audit), through an episode of
one turn, and through LiteLLM's proxy, which has a key and no database.
"""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from decimal import Decimal
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from bench.episodes.model_server import MODEL
from bench.figures import Figures, say
from bench.gateway.budgets import use_up
from bench.gateway.litellm import KEY, running_proxy
from bench.gateway.load import Endpoint, Measured, first_token_ms, listens, measure
from local_platforms import local_platform
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.process import ManagedProcess
from podium_operations.local.platform import LocalPlatform
from podium_operations.local.state import Connection

BUSIEST = 16
FIRST_TOKENS = 20
# So that calls that want a budget are in progress together.
SLOW_S = 0.2
ALONE, PROXIED, EPISODE, PEER = "model server", "tool/NAME", "one-turn episode", "LiteLLM"


async def main(plan: Mapping[int, int]) -> None:
    figures = Figures("gateway")
    async with running_model() as model_url:
        endpoints = [Endpoint(ALONE, model_url, "none", MODEL)]
        found = {ALONE: await measured(figures, endpoints[0], plan)}
        async with running_platform(model_url) as (platform, connection):
            proxied, episode = await podiums(platform, connection)
            found[PROXIED] = await measured(figures, proxied, plan)
            found[EPISODE] = await measured(figures, episode, plan)
        async with (
            running_model(SLOW_S) as slow_url,
            running_platform(slow_url) as (platform, connection),
        ):
            proxied, _ = await podiums(platform, connection)
            await measure_budget(figures, proxied, connection)
            alone = Endpoint(ALONE, slow_url, "none", MODEL)
            firsts = [await first_token_ms(each, FIRST_TOKENS) for each in (alone, proxied)]
            figures.note("first_token_ms alone, proxied", firsts)
            figures.ratio("gateway.first_token_added_ms", firsts[1] - firsts[0], "<=", 10)
        async with running_proxy(model_url) as proxy:
            peer = Endpoint(PEER, proxy.base_url, KEY, MODEL, lambda: {"proxy": proxy.pid}, "proxy")
            found[PEER] = await measured(figures, peer, plan)
            figures.note("peer.version", proxy.version)
    conclude(figures, found)
    figures.write()


async def measured(
    figures: Figures, endpoint: Endpoint, plan: Mapping[int, int]
) -> dict[int, Measured]:
    """Returns the figures by concurrency."""
    say(endpoint.name)
    found = {}
    for concurrent, total in plan.items():
        found[concurrent] = await measure(endpoint, concurrent, total)
        figures.note(f"{endpoint.name}.at_{concurrent}", str(found[concurrent]))
        each = {name: round(ms, 2) for name, ms in found[concurrent].by_process.items()}
        figures.note(f"{endpoint.name}.processor_ms_at_{concurrent}", each)
    return found


async def measure_budget(figures: Figures, proxied: Endpoint, connection: Connection) -> None:
    say("a budget that is used up")
    used = await use_up(proxied, connection)
    figures.note("budget", str(used))
    figures.ratio("gateway.budget_used", float(used.posted / used.limit), ">=", 0.99)
    overshoot = max(Decimal(0), used.posted + used.held - used.limit)
    figures.ratio("gateway.budget_overshoot", float(overshoot), "<=", 0)
    figures.ratio("gateway.falsely_rejected", used.falsely_rejected, "<=", 0)


def conclude(figures: Figures, found: Mapping[str, Mapping[int, Measured]]) -> None:
    for name in (PROXIED, EPISODE, PEER):
        for concurrent, each in found[name].items():
            alone = found[ALONE][concurrent]
            added = (round(each.p50_ms - alone.p50_ms, 1), round(each.p99_ms - alone.p99_ms, 1))
            figures.note(f"{name}.added_ms_p50_p99_at_{concurrent}", added)
    ours, peers = found[PROXIED][BUSIEST], found[PEER][BUSIEST]
    figures.ratio("gateway.proxied_processor_ms", ours.processor_ms, "<=", 1.0)
    figures.ratio("gateway.front_processor_ms", ours.front_ms, "<=", 1.0)
    figures.ratio("gateway.episode_processor_ms", found[EPISODE][BUSIEST].processor_ms, "<=", 30)
    figures.ratio("gateway.processor_over_litellm", ours.processor_ms / peers.processor_ms, "<=", 1)
    figures.ratio("gateway.requests_over_litellm", ours.per_second / peers.per_second, ">=", 1)
    failed = sum(each.failed for by in found.values() for each in by.values())
    figures.ratio("gateway.failed", failed, "<=", 0)


@asynccontextmanager
async def running_model(delay_s: float = 0.0) -> AsyncIterator[str]:
    port = free_port()
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bench.episodes.model_server"]
        options = ["--port", str(port), "--delay-s", str(delay_s), "--turns", "1", "--streams"]
        process = ManagedProcess("model", [*command, *options], log_path=Path(folder) / "log")
        process.start()
        try:
            await process.wait_ready(partial(listens, port), 60)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            await process.terminate()


@asynccontextmanager
async def running_platform(model_url: str) -> AsyncIterator[tuple[LocalPlatform, Connection]]:
    with TemporaryDirectory() as folder:
        async with local_platform(Path(folder), model_url, MODEL, telemetry=False) as running:
            yield running


async def podiums(platform: LocalPlatform, connection: Connection) -> list[Endpoint]:
    def processes() -> dict[str, int]:
        return {name: each.pid for name, each in platform.processes.items() if each.pid}

    base_url, key = f"{connection.gateway_url}/v1", connection.api_key
    return [
        Endpoint(PROXIED, base_url, key, await tool_model(connection), processes, "gateway"),
        Endpoint(EPISODE, base_url, key, "podium", processes, "gateway"),
    ]


async def tool_model(connection: Connection) -> str:
    headers = {"authorization": f"Bearer {connection.api_key}"}
    async with httpx.AsyncClient(headers=headers, timeout=60, trust_env=False) as http:
        listed = (await http.get(f"{connection.gateway_url}/v1/models")).raise_for_status().json()
    return next(str(each["id"]) for each in listed["data"] if each["id"].startswith("tool/"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=320, help="at 16 at once; a fifth at 1")
    requests = parser.parse_args().requests
    asyncio.run(main({1: requests // 5, BUSIEST: requests}))
