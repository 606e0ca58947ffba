import asyncio
from importlib import import_module
from typing import Any

from grpc.aio import ServicerContext

from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium.adapters.v1 import tool_adapter_service_pb2_grpc as rpc
from podium_kit.rpc.identity import current_identity
from tool_adapters.convert import answer_to_proto, call_from_proto, delivered_to_proto
from tool_adapters.convert_tools import mcp_from_proto
from tool_adapters.corpus.passages import pdf_tokens
from tool_adapters.following.servicer import FollowingRpcs
from tool_adapters.mcp.convert import discovery_to_proto
from tool_adapters.mcp.servers import ListableServers
from tool_adapters.service import Invoker
from tool_adapters.webhooks.delivery import Deliveries, WebhookMessage

Context = ServicerContext[Any, Any]


class ToolAdapterServicer(rpc.ToolAdapterServiceServicer):
    def __init__(
        self,
        invoker: Invoker,
        listable: ListableServers,
        following: FollowingRpcs,
        deliveries: Deliveries,
    ) -> None:
        self._invoker = invoker
        self._deliveries = deliveries
        self._listable = listable
        self._following = following

    async def Invoke(self, request: pb.InvokeRequest, context: Context) -> pb.InvokeResponse:
        return answer_to_proto(await self._invoker.invoke(call_from_proto(request)))

    async def CloseEpisode(
        self, request: pb.CloseEpisodeRequest, context: Context
    ) -> pb.CloseEpisodeResponse:
        await self._invoker.close_episode(request.episode_id)
        return pb.CloseEpisodeResponse()

    async def DeliverWebhook(
        self, request: pb.DeliverWebhookRequest, context: Context
    ) -> pb.DeliverWebhookResponse:
        message = WebhookMessage(
            tenant=current_identity().tenant,
            message_id=request.message_id,
            url=request.url,
            secret=request.secret.name,
            body=request.body_json.encode(),
        )
        return delivered_to_proto(await self._deliveries.deliver(message))

    async def MeasurePdf(
        self, request: pb.MeasurePdfRequest, context: Context
    ) -> pb.MeasurePdfResponse:
        tokens = await pdf_tokens(request.data, current_identity().tenant)
        return pb.MeasurePdfResponse(tokens=tokens)

    async def DiscoverMcpTools(
        self, request: pb.DiscoverMcpToolsRequest, context: Context
    ) -> pb.DiscoverMcpToolsResponse:
        server = mcp_from_proto(request.connection).transport
        await self._listable.require(server)
        # Imports the SDK, the first time; others are served meanwhile.
        await asyncio.to_thread(import_module, "tool_adapters.mcp.discovery")
        from tool_adapters.mcp.discovery import McpDiscovery

        discovery = await McpDiscovery(self._listable.servers).discover(server)
        return discovery_to_proto(discovery, request)

    async def FollowMcpServer(
        self, request: pb.FollowMcpServerRequest, context: Context
    ) -> pb.FollowMcpServerResponse:
        return await self._following.follow(request)

    async def UnfollowMcpServer(
        self, request: pb.UnfollowMcpServerRequest, context: Context
    ) -> pb.UnfollowMcpServerResponse:
        return await self._following.unfollow(request)

    async def ListFollowedMcpServers(
        self, request: pb.ListFollowedMcpServersRequest, context: Context
    ) -> pb.ListFollowedMcpServersResponse:
        return await self._following.list_followed(request)
