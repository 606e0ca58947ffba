"""Calls of tenants' tools whose host moves from a public address to loopback between two lookups.

Run in a network of its own, where names are asked of 127.0.0.1 and nothing leads out; prints a JSON
object of what became of each kind.
"""

import asyncio
import json
import socket
import struct
import sys
from collections import Counter
from collections.abc import Awaitable, Callable

from callers import make_identity
from integration.misbehaviour.grpc_server import METHOD, descriptor_set
from podium_kit.failures import FailureKind
from podium_kit.rpc.identity import acting_as
from podium_kit.tool_kinds import GRPC, HTTP, ToolKind
from tool_adapters.adapter import CallFailed
from tool_adapters.grpc.adapter import GrpcMethods
from tool_adapters.http.client import HttpClient, HttpRequest
from tool_adapters.mcp.definitions import McpDefinitions
from tool_adapters.mcp.servers import McpServers, ServerOwner
from tool_adapters.models import (
    Connection,
    GrpcConnection,
    HttpConnection,
    McpHttp,
    SideEffect,
    ToolDefinition,
)
from tool_adapters.network_guard import ForbiddenAddress, NetworkGuard, require_public
from tool_adapters.secret_store import MountedSecrets

PUBLIC, LOOPBACK = "93.184.216.34", "127.0.0.1"
TYPE_A = 1
HEADER_BYTES = 12
Call = Callable[[str, int], Awaitable[object]]


class RebindingNames(asyncio.DatagramProtocol):
    """A name server (RFC 1035): the first lookup of a name is answered PUBLIC, others LOOPBACK."""

    def __init__(self) -> None:
        self.lookups: Counter[bytes] = Counter()

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        name, _, rest = data[HEADER_BYTES:].partition(b"\0")
        kind, _ = struct.unpack(">HH", rest[:4])
        self._transport.sendto(self._answer(data, name, kind), addr)

    def _answer(self, query: bytes, name: bytes, kind: int) -> bytes:
        question = name + b"\0" + struct.pack(">HH", kind, 1)
        # IPv6 addresses it has none.
        addresses = [] if kind != TYPE_A else [LOOPBACK if self.lookups[name] else PUBLIC]
        self.lookups[name] += len(addresses)
        answers = [
            struct.pack(">HHHIH4s", 0xC00C, TYPE_A, 1, 0, 4, socket.inet_aton(address))
            for address in addresses
        ]
        header = struct.pack(">2sHHHHH", query[:2], 0x8180, 1, len(answers), 0, 0)
        return header + question + b"".join(answers)


class Bait:
    def __init__(self) -> None:
        self.visits = 0

    async def visited(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.visits += 1
        writer.close()


def tool(kind: ToolKind, connection: Connection) -> ToolDefinition:
    return ToolDefinition(kind.name, 1, kind, {"type": "object"}, None, connection, SideEffect.PURE)


async def by_http(host: str, port: int) -> object:
    async with HttpClient(NetworkGuard()) as client:
        url = f"http://{host}:{port}/"
        with acting_as(make_identity("acme")):
            return await client.send(
                HttpRequest("GET", url), tool(HTTP, HttpConnection("GET", url))
            )


async def by_mcp(host: str, port: int) -> object:
    servers = McpServers(MountedSecrets(None), NetworkGuard(), McpDefinitions(None))
    server, owner = McpHttp(f"http://{host}:{port}/mcp"), ServerOwner("acme", shared=False)
    async with servers.opened(server, owner) as client:
        return await client.list_tools()


async def by_grpc(host: str, port: int) -> object:
    connection = GrpcConnection(f"{host}:{port}", METHOD, descriptor_set(), plaintext=True)
    methods = GrpcMethods(NetworkGuard())
    try:
        return await methods.call("acme", tool(GRPC, connection), {}, "")
    finally:
        await methods.close()


async def by_looking_twice(host: str, port: int) -> object:
    """The fault a guard would have that checks one lookup and connects by another."""
    for entry in await asyncio.get_running_loop().getaddrinfo(host, port):
        require_public(str(entry[4][0]))
    return await asyncio.open_connection(host, port)


async def outcome(call: Call, host: str, port: int) -> str:
    try:
        await call(host, port)
    except CallFailed as error:
        return error.failure.kind.value
    except ForbiddenAddress:
        return FailureKind.PERMISSION_DENIED.value
    return "connected"


async def main() -> None:
    loop, bait = asyncio.get_running_loop(), Bait()
    await loop.create_datagram_endpoint(RebindingNames, (LOOPBACK, 53))
    server = await asyncio.start_server(bait.visited, LOOPBACK, 0)
    port = server.sockets[0].getsockname()[1]
    found = {}
    for call in (by_http, by_mcp, by_grpc, by_looking_twice):
        host = f"{call.__name__.replace('_', '-')}.example"
        outcomes = [await outcome(call, host, port) for _ in range(2)]
        # Connections that were let through have arrived by then.
        await asyncio.sleep(0.05)
        found[call.__name__] = [*outcomes, f"{bait.visits} visits"]
        bait.visits = 0
    server.close()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main())
