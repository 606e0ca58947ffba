"""Alerts: a soft limit of a budget was passed in one of its windows.

The database raises them in the transaction that moves the money, once per budget, window
and soft limit, so whoever posts cannot forget it and no concurrency can double it. The
relay owes each to the topic until the broker has it.
"""

import asyncio
import logging
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from money import Money
from rpckit.errors import DomainError

log = logging.getLogger(__name__)

BATCH = 200
POLL_INTERVAL_S = 0.5
RETRY_INTERVAL_S = 2.0


@dataclass(frozen=True, slots=True)
class BudgetAlert:
    """A soft limit that was passed. `sequence` counts over all tenants, oldest first."""

    sequence: int
    tenant: str
    budget_id: str
    window_start: datetime
    soft_limit: Money
    posted: Money
    hard_limit: Money
    create_time: datetime
    publish_time: datetime | None

    @property
    def id(self) -> str:
        """One per budget, window and soft limit, for ever: consumers drop what they know."""
        start = self.window_start.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return f"{self.tenant}/{self.budget_id}/{start}/{self.soft_limit.amount_string()}"


class OwedAlerts(Protocol):
    """Where alerts wait that no topic has."""

    def publishing(self, limit: int) -> AbstractAsyncContextManager[list[BudgetAlert]]:
        """The oldest owed alerts, nobody else's meanwhile; published when the block ends well."""


class AlertTopic(Protocol):
    """Where alerts go."""

    async def publish(self, alerts: list[BudgetAlert]) -> None:
        """Returns when the broker has them. Raises Unavailable."""


class AlertRelay:
    """Moves owed alerts to the topic, at least once; several replicas may."""

    def __init__(self, owed: OwedAlerts, topic: AlertTopic) -> None:
        self._owed = owed
        self._topic = topic

    async def run(self) -> None:
        """Relays until cancelled."""
        while True:
            try:
                if not await self.relay_once():
                    await asyncio.sleep(POLL_INTERVAL_S)
            except DomainError as error:
                log.warning("alerts wait: %s", error.message)
                await asyncio.sleep(RETRY_INTERVAL_S)

    async def relay_once(self) -> int:
        """Publishes one batch; how many alerts were owed."""
        async with self._owed.publishing(BATCH) as alerts:
            if alerts:
                await self._topic.publish(alerts)
        for alert in alerts:
            log.warning(
                "tenant %s: budget %s passed its soft limit %s",
                alert.tenant,
                alert.budget_id,
                alert.soft_limit,
            )
        return len(alerts)
