import asyncio
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from callers import client_channel, make_identity, make_key_pair
from integration.tool_adapters.adapters_under_test import (
    AdaptersUnderTest,
    adapters_process,
    running_registry,
)
from podium.adapters.v1.tool_adapter_service_pb2_grpc import ToolAdapterServiceStub
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.postgres import EmbeddedPostgres
from podium_kit.embedded.process import ManagedProcess

TOOL_SERVER = Path(__file__).with_name("tool_server.py")
STARTUP_TIMEOUT_S = 60


@dataclass(frozen=True)
class Serving:
    """Running adapters in process `pid`, and the base URLs of the servers their tools are on."""

    adapters: AdaptersUnderTest
    pid: int
    http_url: str
    mcp_url: str


@asynccontextmanager
async def serving() -> AsyncIterator[Serving]:
    """Everything in processes of its own, apart from a registry that is asked once per tool."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        postgres = EmbeddedPostgres(folder / "postgres")
        await postgres.start()
        try:
            url = await postgres.create_database("bench")
            async with (
                _tool_server(folder, "http") as http_url,
                _tool_server(folder, "mcp-http") as mcp_url,
                _adapters(folder, url) as (adapters, pid),
            ):
                yield Serving(adapters, pid, http_url, f"{mcp_url}/mcp")
        finally:
            await postgres.stop()


@asynccontextmanager
async def _adapters(folder: Path, url: str) -> AsyncIterator[tuple[AdaptersUnderTest, int]]:
    keys, port = make_key_pair(), free_port()
    async with (
        running_registry() as registry,
        client_channel(port, make_identity(), keys) as channel,
    ):
        process = adapters_process(folder, port, registry.port, url, keys)
        process.start()
        try:
            await asyncio.wait_for(channel.channel_ready(), STARTUP_TIMEOUT_S)
            assert process.pid is not None
            stub = ToolAdapterServiceStub(channel)
            servers = folder / "mcp-servers"
            yield AdaptersUnderTest(port, keys, registry, stub, servers), process.pid
        finally:
            await process.terminate()


@asynccontextmanager
async def _tool_server(folder: Path, kind: str) -> AsyncIterator[str]:
    port = free_port()
    argv = [sys.executable, str(TOOL_SERVER), kind, str(port)]
    process = ManagedProcess(kind, argv, log_path=folder / f"{kind}.log")
    process.start()
    try:
        async with asyncio.timeout(STARTUP_TIMEOUT_S):
            while not _listens(port):
                await asyncio.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        await process.terminate()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
