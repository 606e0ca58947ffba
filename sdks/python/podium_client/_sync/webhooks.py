# Written by `make sdk` from podium_client/_async; do not edit.
"""Webhooks: where a tenant's events are sent, and what became of them."""

from collections.abc import Sequence
from typing import Literal

from podium_client._sync.pages import Pages
from podium_client._sync.transport import Transport, required
from podium_client.models import (
    DeleteWebhookResponse,
    ListWebhookDeliveriesResponse,
    ListWebhooksResponse,
    PutWebhookRequest,
    PutWebhookResponse,
    ReplayWebhookDeliveriesRequest,
    ReplayWebhookDeliveriesResponse,
    SecretRef,
    Webhook,
    WebhookDelivery,
)
from podium_client.wire import path

WEBHOOK = "/v1/webhooks/{id}"
EventType = Literal[
    "episode_ended",
    "approval_requested",
    "record_dead_lettered",
    "budget_alert",
    "feedback_given",
    "version_promoted",
]
DeliveryState = Literal["pending", "delivered", "failed"]


class Webhooks:
    """Tenant admins only; `podium_client.verify_webhook` is for those who receive."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def put(
        self, webhook_id: str, url: str, secret: str, *, event_types: Sequence[EventType] = ()
    ) -> Webhook:
        """Registers or replaces one. `secret` is the name of a secret of the platform's store."""
        body = PutWebhookRequest(
            url=url,
            secret=SecretRef(name=secret),
            event_types=[f"WEBHOOK_EVENT_TYPE_{each.upper()}" for each in event_types],
        )
        reply = self._transport.call(
            "PUT", path(WEBHOOK, id=webhook_id), PutWebhookResponse, body=body
        )
        return required(reply.webhook)

    def list(self, *, page_size: int = 0) -> Pages[Webhook]:
        """Lists webhooks in the order of their ids."""
        return self._transport.pages(
            "/v1/webhooks",
            ListWebhooksResponse,
            lambda page: (page.webhooks, page.next_page_token),
            {"page_size": page_size},
        )

    def delete(self, webhook_id: str) -> None:
        """Deletes a webhook and its deliveries."""
        self._transport.call("DELETE", path(WEBHOOK, id=webhook_id), DeleteWebhookResponse)

    def deliveries(
        self, webhook_id: str = "", *, states: Sequence[DeliveryState] = (), page_size: int = 0
    ) -> Pages[WebhookDelivery]:
        """Lists the deliveries of the last 30 days, newest first."""
        return self._transport.pages(
            "/v1/webhook-deliveries",
            ListWebhookDeliveriesResponse,
            lambda page: (page.deliveries, page.next_page_token),
            {
                "webhook_id": webhook_id,
                "states": [f"WEBHOOK_DELIVERY_STATE_{each.upper()}" for each in states],
                "page_size": page_size,
            },
        )

    def replay(self, delivery_ids: Sequence[str] = (), *, webhook_id: str = "") -> int:
        """Sends deliveries again, all that failed where none is named; how many."""
        body = ReplayWebhookDeliveriesRequest(delivery_ids=[*delivery_ids], webhook_id=webhook_id)
        reply = self._transport.call(
            "POST", "/v1/webhook-deliveries/replay", ReplayWebhookDeliveriesResponse, body=body
        )
        return reply.count
