"""256 calls of a tool that takes half a second, at once through one adapters process."""

import asyncio
import statistics
import time

from bench.figures import Figures, say
from bench.tools.serving import Serving, serving
from integration.tool_adapters.tool_specs import http_spec, mcp_http_spec, tool_limits
from podium.registry.v1 import tool_pb2

CONCURRENT = 256
# As long as tool_server takes.
SLOW_S = 0.5
EPISODES = 16
ROUNDS = 5
TARGET = 1.1


async def measure_slow_tools(figures: Figures) -> None:
    """An HTTP tool, and one of an MCP server with a session for each of 16 episodes."""
    limits = tool_limits(timeout_s=30, concurrency=CONCURRENT)
    async with serving() as running:
        url = f"{running.http_url}/slow"
        specs = {
            "http": http_spec(url, limits=limits),
            "mcp_http": mcp_http_spec("slow", running.mcp_url, limits=limits),
        }
        for kind, spec in specs.items():
            say(f"{CONCURRENT} calls at once of a tool of kind {kind}")
            await _measure(figures, running, kind, spec)


async def _measure(figures: Figures, running: Serving, kind: str, spec: tool_pb2.ToolSpec) -> None:
    spec.name = kind
    tool = running.adapters.register(spec)
    await _at_once(running, tool)
    rounds = [await _at_once(running, tool) for _ in range(ROUNDS)]
    p50_s = statistics.median(statistics.median(latencies) for latencies in rounds)
    worst_s = statistics.median(max(latencies) for latencies in rounds)
    figures.note(f"slow_{kind}.p50_s", round(p50_s, 3))
    figures.note(f"slow_{kind}.longest_s", round(worst_s, 3))
    figures.ratio(f"tools.slow_{kind}_p50", p50_s / SLOW_S, "<=", TARGET)


async def _at_once(running: Serving, tool: str) -> list[float]:
    async def call(number: int) -> float:
        start = time.perf_counter()
        answer = await running.adapters.call(tool, episode_id=f"episode-{number % EPISODES}")
        assert "at last" in answer.output.content, answer
        return time.perf_counter() - start

    return await asyncio.gather(*map(call, range(CONCURRENT)))
