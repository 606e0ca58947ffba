"""Asks the ledger for limits that were passed, for tenants whose webhooks want to know.

The ledger keeps every alert, so none is lost while this is away, and an alert that is read again is
found by its id.
"""

from datetime import UTC, datetime, timedelta
from typing import Protocol

from episodes.webhooks.events import budget_alert
from episodes.webhooks.models import EventType, PassedLimit
from episodes.webhooks.sender import SUBJECT
from episodes.webhooks.store import WebhookStore
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
