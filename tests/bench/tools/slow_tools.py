"""256 calls of a tool that takes half a second, at once through one adapters process."""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
from mcp import Client
from mcp.types import TextContent

from bench.figures import Figures, say
from bench.tools.serving import Serving, serving
from integration.tool_adapters.tool_specs import http_spec, mcp_http_spec, tool_limits
from podium.registry.v1 import tool_pb2

CONCURRENT = 256
# As long as tool_server takes.
SLOW_S = 0.5
EPISODES = 16
ROUNDS = 5
TARGETS = {"http": 1.1, "mcp_http": 1.3}

# Makes a call of the tool, for an episode's number; returns what it answers.
Call = Callable[[int], Awaitable[str]]


async def measure_slow_tools(figures: Figures) -> None:
    """An HTTP tool, and one of an MCP server with a session for each of 16 episodes."""
    limits = tool_limits(timeout_s=30, concurrency=CONCURRENT)
    async with serving() as running:
        url = f"{running.http_url}/slow"
        kinds = {
            "http": (http_spec(url, limits=limits), _http(url)),
            "mcp_http": (mcp_http_spec("slow", running.mcp_url, limits=limits), _mcp(running)),
        }
        for kind, (spec, opened) in kinds.items():
            say(f"{CONCURRENT} calls at once of a tool of kind {kind}, direct and by the adapters")
            spec.name = kind
            async with opened as direct:
                await _measure(figures, running, spec, direct)


async def _measure(
    figures: Figures, running: Serving, spec: tool_pb2.ToolSpec, direct: Call
) -> None:
    """Rounds in turns, so that a disturbance meets both; medians of the rounds."""
    kind, tool = spec.name, running.adapters.register(spec)

    async def through(episode: int) -> str:
        answer = await running.adapters.call(tool, episode_id=f"episode-{episode}")
        return answer.output.content

    alone, ours = [], []
    await _at_once(direct)
    await _at_once(through)
    for _ in range(ROUNDS):
        alone.append(await _at_once(direct))
        ours.append(await _at_once(through))
    p50_s = _median(ours)
    figures.note(f"slow_{kind}.direct_p50_s", round(_median(alone), 3))
    figures.note(f"slow_{kind}.p50_s", round(p50_s, 3))
    figures.note(f"slow_{kind}.longest_s", round(statistics.median(map(max, ours)), 3))
    figures.ratio(f"tools.slow_{kind}_p50", p50_s / SLOW_S, "<=", TARGETS[kind])
    over_direct = [
        statistics.median(a) / statistics.median(b) for a, b in zip(ours, alone, strict=True)
    ]
    figures.ratio(
        f"tools.slow_{kind}_over_direct", statistics.median(over_direct), "<=", TARGETS[kind]
    )


async def _at_once(call: Call) -> list[float]:
    async def timed(number: int) -> float:
        start = time.perf_counter()
        answer = await call(number % EPISODES)
        assert "at last" in answer, answer
        return time.perf_counter() - start

    return await asyncio.gather(*map(timed, range(CONCURRENT)))


def _median(rounds: list[list[float]]) -> float:
    return statistics.median(map(statistics.median, rounds))


@asynccontextmanager
async def _http(url: str) -> AsyncIterator[Call]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def call(_: int) -> str:
            async with session.get(url) as response:
                return await response.text()

        yield call


@asynccontextmanager
async def _mcp(running: Serving) -> AsyncIterator[Call]:
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(Client(running.mcp_url)) for _ in range(EPISODES)
        ]

        async def call(episode: int) -> str:
            [content] = (await clients[episode].call_tool("slow", {})).content
            assert isinstance(content, TextContent)
            return content.text

        yield call
