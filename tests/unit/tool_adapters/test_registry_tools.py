from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from podium.registry.v1 import tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium.registry.v1 import tool_registry_service_pb2_grpc as rpc
from podium_kit.rpc.errors import Unavailable
from tool_adapters import clients
from tool_adapters.calls.bulkheads import Gates
from tool_adapters.clients import RegistryTools


class OneTool(rpc.ToolRegistryServiceServicer):
    def __init__(self, *, shared: bool) -> None:
        self._shared = shared
        self.places = 2

    async def GetTool(self, request: pb.GetToolRequest, context: Any) -> pb.GetToolResponse:
        spec = tool_pb2.ToolSpec(name=request.name, kind=tool_pb2.TOOL_KIND_FUNCTION)
        spec.connection.function.function = "convert_currency"
        spec.limits.max_concurrency = self.places
        tool = tool_pb2.Tool(spec=spec, version=request.version, shared=self._shared)
        return pb.GetToolResponse(tool=tool)


@asynccontextmanager
async def registry_tools(
    *, shared: bool, servicer: OneTool | None = None
) -> AsyncIterator[RegistryTools]:
    server = grpc.aio.server()
    servicer = servicer or OneTool(shared=shared)  # type: ignore[abstract]
    rpc.add_ToolRegistryServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield RegistryTools(channel)
    await server.stop(None)


async def test_tenants_take_the_places_of_a_shared_tool_from_each_other() -> None:
    gates = Gates()
    async with registry_tools(shared=True) as tools:
        first = gates.of("acme", await tools.tool("acme", "convert", 1), "")
        second = gates.of("other", await tools.tool("other", "convert", 1), "")
        newer = gates.of("other", await tools.tool("other", "convert", 2), "")
    # The places are of the function that both versions call.
    assert first.places is second.places is newer.places
    assert first.breaker is not second.breaker


async def test_tools_of_two_tenants_have_places_of_their_own() -> None:
    async with registry_tools(shared=False) as tools:
        mine, theirs = await tools.tool("acme", "ask", 1), await tools.tool("other", "ask", 1)
        assert await tools.tool("acme", "ask", 1) is mine
    assert mine is not theirs


async def test_the_operators_later_terms_reach_a_tenants_tool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clients, "TERMS_KEPT_S", 0.0)
    servicer = OneTool(shared=False)  # type: ignore[abstract]
    async with registry_tools(shared=False, servicer=servicer) as tools:
        before = await tools.tool("acme", "ask", 1)
        assert await tools.tool("acme", "ask", 1) is before
        servicer.places = 5
        assert (await tools.tool("acme", "ask", 1)).limits.max_concurrency == 5


async def test_a_tool_that_is_known_is_called_while_the_registry_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clients, "TERMS_KEPT_S", 0.0)
    async with registry_tools(shared=False) as tools:
        before = await tools.tool("acme", "ask", 1)

        async def away(*_: object) -> tool_pb2.Tool:
            raise Unavailable("the registry is away")

        monkeypatch.setattr(tools, "_fetch", away)
        assert await tools.tool("acme", "ask", 1) is before
