"""Publishes the alerts that are owed to the topic, at least once."""

import asyncio
import logging

from cost_ledger.budgets.convert_alerts import alert_record
from cost_ledger.budgets.store_alerts import AlertStore
from podium_kit.rpc.errors import DomainError
from podium_kit.stream import Producer

log = logging.getLogger(__name__)

BATCH = 200
POLL_INTERVAL_S = 0.5
RETRY_INTERVAL_S = 2.0


class AlertRelay:
    """Moves owed alerts to the topic; several replicas share the work."""

    def __init__(self, owed: AlertStore, producer: Producer, topic: str) -> None:
        self._owed = owed
        self._producer = producer
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
        """Publishes one batch; how many alerts were owed. Raises Unavailable."""
        async with self._owed.publishing(BATCH) as alerts:
            if alerts:
                await self._producer.send(self._topic, [alert_record(each) for each in alerts])
        for alert in alerts:
            log.warning(
                "tenant %s: budget %s passed its soft limit %s",
                alert.tenant,
                alert.budget_id,
                alert.soft_limit,
            )
        return len(alerts)
