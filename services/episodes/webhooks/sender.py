"""Sends due deliveries, from one worker at a time."""

import asyncio
import logging
from collections.abc import Coroutine
from http import HTTPStatus
from typing import Any, Protocol

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
# Deliveries that are under way at once, and of them those of a tenant and to a receiver.
LIMIT, TENANT_PLACES, RECEIVER_PLACES = 500, 20, 5
# What ends within this time is looked up together.
GATHER_S = 0.02
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
    async def deliver(self, delivery: DueDelivery) -> Attempt: ...


class _Sending:
    def __init__(self) -> None:
        self.tasks: dict[asyncio.Task[None], DueDelivery] = {}

    @property
    def ids(self) -> list[int]:
        return [delivery.id for delivery in self.tasks.values()]

    def has_place(self, delivery: DueDelivery) -> bool:
        others = [one for one in self.tasks.values() if one.tenant == delivery.tenant]
        same = [one for one in others if one.url == delivery.url]
        return (
            len(self.tasks) < LIMIT and len(others) < TENANT_PLACES and len(same) < RECEIVER_PLACES
        )

    def start(self, delivery: DueDelivery, sending: Coroutine[Any, Any, None]) -> None:
        self.tasks[asyncio.create_task(sending)] = delivery

    async def some(self) -> None:
        """Waits until a delivery has ended, or the next poll is due. Raises an error of a
        delivery."""
        first = asyncio.FIRST_COMPLETED
        await asyncio.wait(self.tasks, timeout=POLL_INTERVAL_S, return_when=first)
        await asyncio.sleep(GATHER_S)
        ended = [task for task in self.tasks if task.done()]
        for task in ended:
            del self.tasks[task]
        for error in filter(None, [task.exception() for task in ended]):
            raise error

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


class WebhookSender:
    def __init__(
        self, store: WebhookStore, receivers: Receivers, waits_s: tuple[float, ...] = WAITS_S
    ) -> None:
        self._store = store
        self._receivers = receivers
        self._waits_s = waits_s
        self._sending = _Sending()

    async def send_due(self) -> bool:
        """Starts due deliveries and waits for some of those under way; returns whether there are
        any.

        Concurrency is bounded by tenant and receiver, so a slow receiver delays only itself.
        """
        sending = self._sending
        due = await self._store.due(sending.ids, LIMIT, TENANT_PLACES, RECEIVER_PLACES)
        for delivery in due:
            if sending.has_place(delivery):
                sending.start(delivery, self._send(delivery))
        if not sending.tasks:
            return False
        try:
            await sending.some()
        except asyncio.CancelledError:
            await sending.close()
            raise
        return True

    async def _send(self, delivery: DueDelivery) -> None:
        # The adapters resolve the secret of the tenant that they are called for.
        identity = Identity(delivery.tenant, SUBJECT, frozenset({Scope.EPISODES_RUN}))
        try:
            with acting_as(identity):
                attempt = await self._receivers.deliver(delivery)
        except DomainError as error:
            attempt = Attempt(0, error.message)
        state, wait_s = self._outcome(delivery, attempt)
        message = attempt.error[:ERROR_CHARACTERS_MAX]
        await self._store.note(delivery.id, Attempt(attempt.status_code, message), state, wait_s)
        _attempts.add(1, {"podium.webhook.state": state.value})
        if state is DeliveryState.FAILED:
            log.warning("webhook delivery %d has failed: %s", delivery.id, message)

    def _outcome(self, delivery: DueDelivery, attempt: Attempt) -> tuple[DeliveryState, float]:
        if HTTPStatus.OK <= attempt.status_code < HTTPStatus.MULTIPLE_CHOICES:
            return DeliveryState.DELIVERED, 0.0
        gone = attempt.status_code == HTTPStatus.GONE
        if gone or delivery.attempt_count >= len(self._waits_s):
            return DeliveryState.FAILED, 0.0
        return DeliveryState.PENDING, self._waits_s[delivery.attempt_count]
