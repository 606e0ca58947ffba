"""Events of other services, polled for the webhooks that want them.

The ledger keeps every alert, so an outage of the worker loses none, and an alert that is read again
is found by its id. A promotion that was there at the first poll is no event.
"""

from datetime import UTC, datetime, timedelta
from typing import Protocol

from episodes.webhooks.events import budget_alert
from episodes.webhooks.models import EventType, PassedLimit
from episodes.webhooks.sender import SUBJECT
from episodes.webhooks.store import PromotionStore, WebhookStore
from podium_kit.rpc.identity import Identity, Scope, acting_as

INTERVAL_S = 5.0
# Well within the time for which deliveries, and so their ids, are kept.
LOOK_BACK = timedelta(days=7)


class Alerts(Protocol):
    """Who knows of passed limits."""

    async def passed_limits(self, since: datetime) -> list[PassedLimit]: ...


class BudgetAlerts:
    """Owes alerts to webhooks."""

    def __init__(self, store: WebhookStore, alerts: Alerts) -> None:
        self._store = store
        self._alerts = alerts

    async def owe(self) -> None:
        """Those of the last week that are not owed yet."""
        earliest = datetime.now(UTC) - LOOK_BACK
        for tenant, since in await self._store.wanting(EventType.BUDGET_ALERT):
            with acting_as(Identity(tenant, SUBJECT, frozenset({Scope.EPISODES_RUN}))):
                passed = await self._alerts.passed_limits(max(since, earliest))
            for limit in passed:
                await self._store.owe_past(budget_alert(tenant, limit), limit.create_time)


# Whom the list of models is the same for as for everybody.
TENANT = "podium"


class Promoted(Protocol):
    """Who knows what users get."""

    async def promoted(self) -> str: ...


class Promotions:
    """Owes changes of the promoted version to webhooks."""

    def __init__(self, store: PromotionStore, webhooks: WebhookStore, models: Promoted) -> None:
        self._store = store
        self._webhooks = webhooks
        self._models = models

    async def owe(self) -> None:
        """Tells of a version that is another than when it was looked at last."""
        with acting_as(Identity(TENANT, SUBJECT, frozenset({Scope.EPISODES_RUN}))):
            version = await self._models.promoted()
        latest = await self._store.latest()
        # An engine that serves no promoted version for a while is no change of it.
        if latest is not None and version in ("", latest):
            return
        told = EventType.VERSION_PROMOTED
        wanting = [] if latest is None else await self._webhooks.wanting(told)
        await self._store.seen(version, latest or "", [tenant for tenant, _ in wanting])
