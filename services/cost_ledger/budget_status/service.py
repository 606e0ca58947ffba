"""Gauges of the whole ledger. Every replica reports the same: alerts take the greatest."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from decimal import Decimal

from opentelemetry.metrics import CallbackOptions, Observation

from cost_ledger.audit.anchoring import Anchors
from cost_ledger.budget_status.store import LedgerStatus, LedgerStatusStore, UsedBudget
from podium_kit import telemetry

INTERVAL_S = 30.0
# What is reported of budgets: few enough to be labels, early enough to be drawn.
NEARLY = Decimal("0.8")
BUDGETS_MAX = 200
Reported = Callable[[CallbackOptions], Iterable[Observation]]


class LedgerGauges:
    """Caches the last poll, which a scrape reports; nothing before the first."""

    def __init__(self, store: LedgerStatusStore, anchors: Anchors, *, publishes: bool) -> None:
        """`publishes` is set where alerts go to a topic."""
        self._store = store
        self._anchors = anchors
        self._publishes = publishes
        self._status: LedgerStatus | None = None
        self._budgets: list[UsedBudget] = []
        self._late_s: float | None = None
        meter = telemetry.get_meter(__name__)
        meter.create_observable_gauge(
            "podium.ledger.hold.overdue",
            [self._of_status(lambda found: found.overdue_s)],
            unit="s",
            description="since the oldest open hold should have ended",
        )
        meter.create_observable_gauge(
            "podium.ledger.untied_tenants",
            [self._of_status(lambda found: found.untied_tenants)],
            unit="{tenant}",
            description="tenants whose balances do not tie out",
        )
        meter.create_observable_gauge(
            "podium.stream.outbox.age",
            [self._of_status(lambda found: found.unpublished_s if self._publishes else None)],
            unit="s",
            description="of the oldest record that its topic does not have",
        )
        meter.create_observable_gauge(
            "podium.ledger.anchor.late",
            [lambda _: [] if self._late_s is None else [Observation(self._late_s)]],
            unit="s",
            description="since the oldest unsigned day should have been signed",
        )
        meter.create_observable_gauge(
            "podium.ledger.budget.used",
            [self._used_budgets],
            unit="1",
            description="share of the hard limit, from four fifths on",
        )

    async def poll(self) -> None:
        self._status = await self._store.status()
        self._budgets = await self._store.nearly_spent(NEARLY, BUDGETS_MAX)
        self._late_s = await self._anchors.late_s(datetime.now(UTC))

    def _of_status(self, value_of: Callable[[LedgerStatus], float | None]) -> Reported:
        def reported(_: CallbackOptions) -> Iterable[Observation]:
            value = None if self._status is None else value_of(self._status)
            return [] if value is None else [Observation(value)]

        return reported

    def _used_budgets(self, _: CallbackOptions) -> Iterable[Observation]:
        return [
            Observation(
                float(each.share), {"podium.tenant": each.tenant, "podium.budget": each.budget_id}
            )
            for each in self._budgets
        ]
