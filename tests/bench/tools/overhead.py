import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import psutil
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from bench.figures import Figures, say
from bench.tools.serving import TOOL_SERVER, Serving, serving
from integration.tool_adapters.tool_specs import define_server, http_spec, mcp_http_spec, mcp_spec

CALLS = 100
ROUNDS = 7
CPU_TARGET_MS = 2
LATENCY_TARGET = 1.3
ARGUMENTS = {"number": 21}

Call = Callable[[], Awaitable[Any]]


@dataclass(frozen=True)
class Taken:
    """Latencies of calls in ms, and the processor time per call of all but the server."""

    latencies_ms: list[float]
    cpu_ms: float


async def measure_overhead(figures: Figures) -> None:
    """Measures HTTP and both transports of MCP: latency, and processor time but the server's."""
    program = (str(TOOL_SERVER), "mcp-stdio")
    stdio = StdioServerParameters(command=sys.executable, args=list(program))
    async with serving() as running:
        url, servers = f"{running.http_url}/double", running.adapters.mcp_servers
        server = define_server(servers, "double", *program, folders=[str(TOOL_SERVER.parent)])
        kinds = {
            "http": (http_spec(url), _http(url)),
            "mcp_http": (mcp_http_spec("double", running.mcp_url), _mcp(running.mcp_url)),
            "mcp_stdio": (mcp_spec("double", server), _mcp(stdio_client(stdio))),
        }
        for kind, (spec, opened) in kinds.items():
            say(f"calls of a tool of kind {kind}, direct and through the adapters")
            spec.name = kind
            async with opened as direct:
                await _compare(figures, running, running.adapters.register(spec), direct)


async def _compare(figures: Figures, running: Serving, tool: str, direct: Call) -> None:
    """Rounds in turns, so that a disturbance meets both; medians of the rounds."""

    async def through() -> None:
        answer = await running.adapters.call(tool, ARGUMENTS)
        assert "42" in answer.output.content, answer

    adapters = psutil.Process(running.pid)
    alone, ours = [], []
    await _taken(direct, adapters)
    await _taken(through, adapters)
    for _ in range(ROUNDS):
        alone.append(await _taken(direct, adapters))
        ours.append(await _taken(through, adapters))
    ratio = statistics.median(_p50(a) / _p50(b) for a, b in zip(ours, alone, strict=True))
    cpu_ms = statistics.median(a.cpu_ms - b.cpu_ms for a, b in zip(ours, alone, strict=True))
    figures.note(f"{tool}.direct_p50_ms", _rounded(map(_p50, alone)))
    figures.note(f"{tool}.adapters_p50_ms", _rounded(map(_p50, ours)))
    figures.note(f"{tool}.direct_cpu_ms", _rounded(taken.cpu_ms for taken in alone))
    figures.note(f"{tool}.adapters_cpu_ms", _rounded(taken.cpu_ms for taken in ours))
    figures.ratio(f"tools.{tool}_cpu_ms_of_{CPU_TARGET_MS}", cpu_ms / CPU_TARGET_MS, "<=", 1)
    figures.ratio(f"tools.{tool}_latency", ratio, "<=", LATENCY_TARGET)


async def _taken(call: Call, adapters: psutil.Process) -> Taken:
    latencies = []
    cpu_s = _cpu_s(adapters)
    for _ in range(CALLS):
        start = time.perf_counter()
        await call()
        latencies.append((time.perf_counter() - start) * 1000)
    return Taken(latencies, (_cpu_s(adapters) - cpu_s) * 1000 / CALLS)


def _cpu_s(adapters: psutil.Process) -> float:
    times = adapters.cpu_times()
    return time.process_time() + times.user + times.system


def _p50(taken: Taken) -> float:
    return statistics.median(taken.latencies_ms)


def _rounded(values: Iterable[float]) -> float:
    return round(statistics.median(values), 2)


@asynccontextmanager
async def _http(url: str) -> AsyncIterator[Call]:
    async with aiohttp.ClientSession() as session:

        async def call() -> None:
            async with session.get(url, params=ARGUMENTS) as response:
                assert await response.json() == {"result": 42}

        yield call


@asynccontextmanager
async def _mcp(server: Any) -> AsyncIterator[Call]:
    async with Client(server) as client:

        async def call() -> None:
            result = await client.call_tool("double", ARGUMENTS)
            assert result.structured_content == {"result": 42}

        yield call
