"""Sends what is due, from one worker at a time."""

import asyncio
import logging
from http import HTTPStatus
from typing import Protocol

from episodes.webhooks.models import Attempt, DeliveryState, DueDelivery
from episodes.webhooks.store import WebhookStore
from podium_kit import telemetry
from podium_kit.rpc.errors import DomainError
from podium_kit.rpc.identity import Identity, Scope, acting_as

log = logging.getLogger(__name__)

_attempts = telemetry.get_meter(__name__).create_counter(
    "podium.webhooks.attempts", "{attempt}", "attempts to deliver events to webhooks"
)

POLL_INTERVAL_S = 1.0
FORGET_INTERVAL_S = 3_600.0
BATCH = 100
# Of one webhook in a batch.
SHARE = 10
MINUTE, HOUR = 60.0, 3_600.0
# The schedule that Standard Webhooks recommends.
WAITS_S = (
    5.0,
    5 * MINUTE,
    30 * MINUTE,
    2 * HOUR,
    5 * HOUR,
    10 * HOUR,
    14 * HOUR,
    20 * HOUR,
    24 * HOUR,
)
SUBJECT = "webhooks"
ERROR_CHARACTERS_MAX = 500


class Receivers(Protocol):
    """Who signs and sends."""

    async def deliver(self, delivery: DueDelivery) -> Attempt: ...


class WebhookSender:
    """Sends due deliveries and notes what became of them."""

    def __init__(
        self, store: WebhookStore, receivers: Receivers, waits_s: tuple[float, ...] = WAITS_S
    ) -> None:
        self._store = store
        self._receivers = receivers
        self._waits_s = waits_s

    async def send_due(self) -> bool:
        """Sends one batch; whether there was one."""
        due = await self._store.due(BATCH, SHARE)
        # The next round would send what is still under way once more.
        sent = await asyncio.gather(*map(self._send, due), return_exceptions=True)
        for outcome in sent:
            if outcome is not None:
                raise outcome
        return bool(due)

    async def _send(self, delivery: DueDelivery) -> None:
        # The adapters resolve the secret of the tenant that they are called for.
        identity = Identity(delivery.tenant, SUBJECT, frozenset({Scope.EPISODES_RUN}))
        try:
            with acting_as(identity):
                attempt = await self._receivers.deliver(delivery)
        except DomainError as error:
            attempt = Attempt(0, error.message)
        state, wait_s = self._outcome(delivery, attempt)
        words = attempt.error[:ERROR_CHARACTERS_MAX]
        await self._store.note(delivery.id, Attempt(attempt.status_code, words), state, wait_s)
        _attempts.add(1, {"podium.webhook.state": state.value})
        if state is DeliveryState.FAILED:
            log.warning("webhook delivery %d has failed: %s", delivery.id, words)

    def _outcome(self, delivery: DueDelivery, attempt: Attempt) -> tuple[DeliveryState, float]:
        if HTTPStatus.OK <= attempt.status_code < HTTPStatus.MULTIPLE_CHOICES:
            return DeliveryState.DELIVERED, 0.0
        gone = attempt.status_code == HTTPStatus.GONE
        if gone or delivery.attempt_count >= len(self._waits_s):
            return DeliveryState.FAILED, 0.0
        return DeliveryState.PENDING, self._waits_s[delivery.attempt_count]
