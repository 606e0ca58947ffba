"""Calls of tools by MCP clients."""

from typing import Any

import grpc

from gateway.limits.models import TenantLimits
from gateway.limits.service import holding_to
from gateway.mcp_server.clients import PolicyToolsClient
from gateway.mcp_server.models import ToolOrder
from podium.episodes.v1 import direct_call_service_pb2 as pb
from podium.episodes.v1 import direct_call_service_pb2_grpc as rpc


class Calls(rpc.DirectCallServiceServicer):
    def __init__(self) -> None:
        self.started: list[pb.StartDirectCallRequest] = []

    async def StartDirectCall(self, request: pb.StartDirectCallRequest, context: Any) -> Any:
        self.started.append(request)
        return pb.StartDirectCallResponse()


async def test_a_call_is_held_to_the_limit_of_the_tenant() -> None:
    calls = Calls()  # type: ignore[abstract]
    server = grpc.aio.server()
    rpc.add_DirectCallServiceServicer_to_server(calls, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    order = ToolOrder("calculator", "{}", policy="", budget=None, labels={})
    limits = TenantLimits(requests_per_s=1, burst=1, concurrency=1, running_episodes=7)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        with holding_to(limits):
            await PolicyToolsClient(channel, channel).start("0190", order)
    await server.stop(None)
    assert [each.running_limit for each in calls.started] == [7]
