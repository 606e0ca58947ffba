"""Events of other services, polled for the webhooks and streams that want them.

The ledger keeps every alert, so an outage of the worker loses none, and an alert that is read again
is found by its id. A promotion that was there at the first poll is no event.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol

from episodes.webhooks.events import budget_alert
from episodes.webhooks.models import EventType, PassedLimit
from episodes.webhooks.sender import SUBJECT
from episodes.webhooks.store import PromotionStore, WebhookStore
from podium_kit.rpc.errors import InternalError, Unavailable
from podium_kit.rpc.identity import Identity, Scope, acting_as

INTERVAL_S = 5.0
# Well within the time for which deliveries, and so their ids, are kept.
WINDOW = timedelta(days=7)


class Alerts(Protocol):
    async def passed_limits(self, since: datetime) -> list[PassedLimit]: ...


# Tenants, and the time from which on they want the events.
Wanting = Callable[[], Awaitable[Sequence[tuple[str, datetime]]]]


class BudgetAlerts:
    def __init__(self, store: WebhookStore, alerts: Alerts, wanting: Wanting) -> None:
        self._store = store
        self._alerts = alerts
        self._wanting = wanting

    async def poll(self) -> None:
        """Adds the alerts of the last week that are not there yet."""
        earliest = datetime.now(UTC) - WINDOW
        for tenant, since in await self._wanting():
            with acting_as(Identity(tenant, SUBJECT, frozenset({Scope.EPISODES_RUN}))):
                passed = await self._alerts.passed_limits(max(since, earliest))
            for limit in passed:
                await self._store.add_past_event(budget_alert(tenant, limit), limit.create_time)


# Whom the list of models is the same for as for everybody.
TENANT = "podium"


class Promoted(Protocol):
    async def promoted(self) -> str: ...


class Promotions:
    def __init__(self, store: PromotionStore, webhooks: WebhookStore, models: Promoted) -> None:
        self._store = store
        self._webhooks = webhooks
        self._models = models

    async def poll(self) -> None:
        """Adds an event when the promoted version has changed.

        An engine that is loading or away shows in the health of its own service.
        """
        with acting_as(Identity(TENANT, SUBJECT, frozenset({Scope.EPISODES_RUN}))):
            try:
                version = await self._models.promoted()
            except InternalError:
                raise
            except Unavailable:
                return
        latest = await self._store.latest()
        # An engine that serves no promoted version for a while is no change of it.
        if latest is not None and version in ("", latest):
            return
        promoted_type = EventType.VERSION_PROMOTED
        subscribers = [] if latest is None else await self._webhooks.subscribers(promoted_type)
        await self._store.seen(version, latest or "", [tenant for tenant, _ in subscribers])
