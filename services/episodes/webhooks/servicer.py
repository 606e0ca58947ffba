from typing import Any

import grpc

from episodes.webhooks.convert import (
    delivery_to_proto,
    states_from_proto,
    webhook_from_proto,
    webhook_to_proto,
)
from episodes.webhooks.service import Webhooks
from podium.episodes.v1 import webhook_service_pb2 as pb
from podium.episodes.v1.webhook_service_pb2_grpc import WebhookServiceServicer
from podium_kit.rpc.identity import current_identity
from podium_kit.rpc.pages import decode_page_token, encode_page_token, page_size, token_number

Context = grpc.aio.ServicerContext[Any, Any]
SIZE_DEFAULT, SIZE_MAX = 50, 500
# Above any number, and within the digits of a page token.
NEWEST = 10**18 - 1


class WebhooksServicer(WebhookServiceServicer):
    def __init__(self, webhooks: Webhooks) -> None:
        self._webhooks = webhooks

    async def PutWebhook(
        self, request: pb.PutWebhookRequest, context: Context
    ) -> pb.PutWebhookResponse:
        webhook = webhook_from_proto(request, current_identity().subject)
        stored = await self._webhooks.put(webhook)
        return pb.PutWebhookResponse(webhook=webhook_to_proto(stored))

    async def ListWebhooks(
        self, request: pb.ListWebhooksRequest, context: Context
    ) -> pb.ListWebhooksResponse:
        size = page_size(request.page_size, SIZE_DEFAULT, SIZE_MAX)
        after = decode_page_token(request.page_token).get("after", "")
        found = await self._webhooks.list(after, size + 1)
        page = found[:size]
        token = encode_page_token({"after": page[-1].id}) if len(found) > size else ""
        return pb.ListWebhooksResponse(
            webhooks=[webhook_to_proto(each) for each in page], next_page_token=token
        )

    async def DeleteWebhook(
        self, request: pb.DeleteWebhookRequest, context: Context
    ) -> pb.DeleteWebhookResponse:
        await self._webhooks.delete(request.id)
        return pb.DeleteWebhookResponse()

    async def ListWebhookDeliveries(
        self, request: pb.ListWebhookDeliveriesRequest, context: Context
    ) -> pb.ListWebhookDeliveriesResponse:
        size = page_size(request.page_size, SIZE_DEFAULT, SIZE_MAX)
        before = token_number(decode_page_token(request.page_token), "before", NEWEST)
        states = states_from_proto(request)
        found = await self._webhooks.deliveries(request.webhook_id, states, before, size + 1)
        page = found[:size]
        token = encode_page_token({"before": str(page[-1].id)}) if len(found) > size else ""
        return pb.ListWebhookDeliveriesResponse(
            deliveries=[delivery_to_proto(each) for each in page], next_page_token=token
        )

    async def ReplayWebhookDeliveries(
        self, request: pb.ReplayWebhookDeliveriesRequest, context: Context
    ) -> pb.ReplayWebhookDeliveriesResponse:
        count = await self._webhooks.replay(request.webhook_id, list(request.delivery_ids))
        return pb.ReplayWebhookDeliveriesResponse(count=count)
