"""ResolveToolset with 10, 1,000 and 10,000 tools, against a server that only sends the answer."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from bench.figures import Figures, say
from integration.tool_registry.builders import make_price, make_spec
from integration.tool_registry.running_registry import Caller, RunningRegistry, running_registry
from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium.registry.v1 import tool_registry_service_pb2_grpc as rpc
from podium_kit.embedded.postgres import EmbeddedPostgres

SIZES = {10: 300, 1_000: 100, 10_000: 20}
CHANGES = 5
REGISTRATIONS_AT_ONCE = 16
MESSAGE_BYTES_MAX = 64 * 1024 * 1024
TARGET = 1.5


async def measure_resolving(figures: Figures) -> None:
    """One registry per size: at rest, for five tools only, and after a change."""
    with tempfile.TemporaryDirectory() as folder:
        postgres = EmbeddedPostgres(Path(folder) / "postgres")
        await postgres.start()
        try:
            for size, calls in SIZES.items():
                say(f"ResolveToolset with {size} tools")
                place = Path(folder) / str(size)
                place.mkdir()
                url = await postgres.create_database(f"bench_{size}")
                async with running_registry(url, place, price_cache_s=5) as registry:
                    await _measure(figures, registry, size, calls)
        finally:
            await postgres.stop()


async def _measure(figures: Figures, registry: RunningRegistry, size: int, calls: int) -> None:
    ada = registry.as_()
    await _register(registry, ada, size)
    reply = await ada.resolve()
    assert len(reply.toolset.tools) == size
    ours = await _timed(ada.resolve, calls)
    async with _floor(reply) as answer:
        floor = await _timed(answer, calls)
    narrow = await _timed(lambda: ada.resolve("", "tool-0", "tool-5"), calls)
    stalls, changed = await _after_changes(ada)
    figures.note(f"resolve.reply_kb_at_{size}", round(reply.ByteSize() / 1000))
    figures.note(f"resolve.p50_ms_at_{size}", _p(ours, 0.5))
    figures.note(f"resolve.p99_ms_at_{size}", _p(ours, 0.99))
    figures.note(f"resolve.floor_p50_ms_at_{size}", _p(floor, 0.5))
    figures.note(f"resolve.two_tools_p50_ms_at_{size}", _p(narrow, 0.5))
    figures.note(f"resolve.after_a_change_p50_ms_at_{size}", _p(changed, 0.5))
    figures.note(f"resolve.longest_stall_ms_at_{size}", round(max(stalls), 1))
    ratio = statistics.median(ours) / statistics.median(floor)
    figures.ratio(f"tools.resolve_p50_at_{size}", ratio, "<=", TARGET)


async def _register(registry: RunningRegistry, ada: Caller, size: int) -> None:
    """Tools with a description, a schema and a price of their own."""
    names = [f"tool-{number}" for number in range(size)]
    registry.prices.give(*(make_price(f"tool/{name}", {"CALL": ("0.01", "1")}) for name in names))
    for start in range(0, size, REGISTRATIONS_AT_ONCE):
        part = names[start : start + REGISTRATIONS_AT_ONCE]
        await asyncio.gather(*(ada.register(make_spec(name)) for name in part))


async def _after_changes(ada: Caller) -> tuple[list[float], list[float]]:
    """Stalls of the event loop, and the first answers after one tool changed, in ms."""
    stalls: list[float] = []
    watching = asyncio.create_task(_watch(stalls))
    taken = []
    for number in range(CHANGES):
        await ada.register(make_spec("tool-0", description=f"Variant {number}."))
        taken += await _timed(ada.resolve, 1)
    watching.cancel()
    return stalls, taken


async def _watch(stalls: list[float]) -> None:
    while True:
        start = time.perf_counter()
        await asyncio.sleep(0.001)
        stalls.append((time.perf_counter() - start) * 1000 - 1)


async def _timed(call: Callable[[], Awaitable[Any]], times: int) -> list[float]:
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        await call()
        taken.append((time.perf_counter() - start) * 1000)
    return taken


class _Answering(rpc.ToolRegistryServiceServicer):
    """The least any server does: the answer is there already."""

    def __init__(self, reply: pb.ResolveToolsetResponse) -> None:
        self._reply = reply

    async def ResolveToolset(
        self, request: pb.ResolveToolsetRequest, context: Any
    ) -> pb.ResolveToolsetResponse:
        return self._reply


@asynccontextmanager
async def _floor(
    reply: pb.ResolveToolsetResponse,
) -> AsyncIterator[Callable[[], Awaitable[pb.ResolveToolsetResponse]]]:
    options = [("grpc.max_receive_message_length", MESSAGE_BYTES_MAX)]
    server = grpc.aio.server()
    answering = _Answering(reply)  # type: ignore[abstract]
    rpc.add_ToolRegistryServiceServicer_to_server(answering, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        stub: Any = rpc.ToolRegistryServiceStub(channel)
        yield lambda: stub.ResolveToolset(pb.ResolveToolsetRequest())
    await server.stop(0)


def _p(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 2)
