import logging
from typing import TYPE_CHECKING

from cost_ledger.budgets.convert import alert_record
from cost_ledger.budgets.store import AlertStore
from podium_kit.stream import Rejection

if TYPE_CHECKING:
    from podium_kit.stream.clients import Producer

log = logging.getLogger(__name__)

BATCH = 200
POLL_INTERVAL_S = 0.5


class AlertRelay:
    """Moves pending alerts to the topic; several replicas share the work."""

    def __init__(self, alerts: AlertStore, producer: "Producer", topic: str) -> None:
        self._alerts = alerts
        self._producer = producer
        self._topic = topic

    async def relay(self) -> bool:
        """Publishes one batch, and returns whether there was one."""
        async with self._alerts.publishing(BATCH) as alerts:
            if alerts:
                records = [alert_record(each) for each in alerts]
                for outcome in await self._producer.send(self._topic, records):
                    if isinstance(outcome, Rejection):
                        log.error("a budget alert is on no topic: %s", outcome.reason)
        for alert in alerts:
            log.warning(
                "tenant %s: budget %s passed its soft limit %s",
                alert.tenant,
                alert.budget_id,
                alert.soft_limit,
            )
        return bool(alerts)
