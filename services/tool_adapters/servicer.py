import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from importlib import import_module
from typing import Any

from grpc.aio import ServicerContext

from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium.adapters.v1 import tool_adapter_service_pb2_grpc as rpc
from podium_kit.metering import Usage
from podium_kit.rpc.identity import current_identity
from podium_kit.wire import usage_to_proto
from tool_adapters.adapter import ModelFunctionCall
from tool_adapters.convert import (
    answer_to_proto,
    call_from_proto,
    delivered_to_proto,
    function_call_to_proto,
    read_answer_to_proto,
)
from tool_adapters.convert_tools import mcp_from_proto
from tool_adapters.corpus.passages import pdf_tokens
from tool_adapters.following.servicer import FollowingRpcs
from tool_adapters.guardrails.convert import guardrails_from_proto
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

    async def InvokeStreaming(
        self, request: pb.InvokeStreamingRequest, context: Context
    ) -> AsyncIterator[pb.InvokeStreamingResponse]:
        news = AnswerNews()
        call = call_from_proto(request.call)
        making = asyncio.create_task(self._invoker.invoke(call, news))
        making.add_done_callback(lambda _: news.end())
        try:
            async for event in news.events(request.part_interval.ToTimedelta().total_seconds()):
                yield event
            yield pb.InvokeStreamingResponse(response=answer_to_proto(await making))
        finally:
            making.cancel()

    async def CheckAnswer(
        self, request: pb.CheckAnswerRequest, context: Context
    ) -> pb.CheckAnswerResponse:
        guardrails = guardrails_from_proto(request.guardrails)
        read = await self._invoker.check_answer(guardrails, request.key, request.answer)
        return read_answer_to_proto(read)

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


class AnswerNews:
    """Events of a call that is being made: what comes while one is sent is sent together."""

    def __init__(self) -> None:
        self._sent: pb.SentRequest | None = None
        self._part = pb.AnswerPart()
        self._ended = asyncio.Event()
        self._news = asyncio.Event()

    def sent(self, usage: Usage, *, timed: bool) -> None:
        self._sent = pb.SentRequest(usage=usage_to_proto(usage), timed=timed)
        self._news.set()

    def wrote(self, text: str) -> None:
        self._part.text += text
        self._news.set()

    def called(self, index: int, part: ModelFunctionCall) -> None:
        self._part.function_calls.add(index=index, call=function_call_to_proto(part))
        self._news.set()

    def end(self) -> None:
        self._ended.set()
        self._news.set()

    async def events(self, part_interval_s: float) -> AsyncIterator[pb.InvokeStreamingResponse]:
        """Yields them to the end of the call, which has an answer of its own.

        Parts are gathered for the interval; those of one that ends with the call are left out.
        """
        while True:
            await self._news.wait()
            self._news.clear()
            if self._sent is not None:
                sent, self._sent = self._sent, None
                yield pb.InvokeStreamingResponse(sent=sent)
            if part_interval_s and not self._ended.is_set() and self._has_part:
                with suppress(TimeoutError):
                    async with asyncio.timeout(part_interval_s):
                        await self._ended.wait()
            ended = self._ended.is_set()
            if self._has_part and not (ended and part_interval_s):
                part, self._part = self._part, pb.AnswerPart()
                yield pb.InvokeStreamingResponse(part=part)
            if ended:
                return

    @property
    def _has_part(self) -> bool:
        return bool(self._part.text or self._part.function_calls)
