"""What adapters measured, merged over their processes.

A report counts for ten minutes: latency of an hour ago says nothing about now. Merged
by sample count; a mean of quantiles is no quantile, but close among like processes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import groupby

from cachetools import LRUCache

from money import Money
from tool_registry.errors import InvalidFacts
from tool_registry.models import Facts, Source
from tool_registry.store_facts import FactsStore

REPORT_LIFETIME = timedelta(minutes=10)
TENANTS_KEPT = 1_000
Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The time on this machine."""
    return datetime.now(UTC)


@dataclass(frozen=True, eq=False)
class Measurements:
    """Merged facts by tool and model, until the oldest report behind them is too old."""

    facts: Mapping[tuple[str, str], Facts]
    version: int
    until: datetime


class MeasurementBook:
    """Measurements per tenant, kept in memory until somebody reports."""

    def __init__(self, store: FactsStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: LRUCache[str, Measurements] = LRUCache(TENANTS_KEPT)

    async def of(self, tenant: str, version: int) -> Measurements:
        """What the tenant's and the shared tools did lately."""
        now = self._clock()
        known = self._known.get(tenant)
        if known is None or known.version < version or known.until < now:
            known = await self._read(tenant, version, now)
            self._known[tenant] = known
        return known

    async def record(self, source: Source, reports: Sequence[tuple[str, Facts]]) -> None:
        """Takes a process's figures; each comes with the owner of its tool."""
        for _, facts in reports:
            check_facts(facts)
        now = self._clock()
        await self._store.record(source, reports, now, now - REPORT_LIFETIME)

    async def _read(self, tenant: str, version: int, now: datetime) -> Measurements:
        reports = await self._store.reports(tenant, now - REPORT_LIFETIME)
        oldest = min((report.time for report in reports), default=now)
        return Measurements(merge(report.facts for report in reports), version, _until(oldest))


def merge(facts: Iterable[Facts]) -> dict[tuple[str, str], Facts]:
    """One per tool and model; `facts` are sorted by them. No samples weigh nothing."""
    measured = (entry for entry in facts if entry.sample_count)
    return {key: _merged(list(group)) for key, group in groupby(measured, _key)}


def check_facts(facts: Facts) -> None:
    """Raises InvalidFacts."""
    if facts.sample_count < 0:
        raise InvalidFacts(f"{facts.tool_name}: sample_count is {facts.sample_count}")
    if not 0 <= facts.latency_p50_s <= facts.latency_p95_s:
        raise InvalidFacts(f"{facts.tool_name}: latencies must be 0 <= p50 <= p95")
    if not 0 <= facts.success_rate <= 1:
        raise InvalidFacts(f"{facts.tool_name}: success_rate must be in [0, 1]")


def _merged(group: list[Facts]) -> Facts:
    total = sum(entry.sample_count for entry in group)

    def mean(values: Iterable[float]) -> float:
        weighed = zip(values, group, strict=True)
        return sum(value * entry.sample_count for value, entry in weighed) / total

    return Facts(
        tool_name=group[0].tool_name,
        model_alias=group[0].model_alias,
        sample_count=total,
        latency_p50_s=mean(entry.latency_p50_s for entry in group),
        latency_p95_s=mean(entry.latency_p95_s for entry in group),
        success_rate=mean(entry.success_rate for entry in group),
        mean_cost=_mean_cost(group),
    )


def _mean_cost(group: list[Facts]) -> Money | None:
    """Over the calls whose cost is known; None when there are none, or two currencies."""
    known = [(entry.mean_cost, entry.sample_count) for entry in group if entry.mean_cost]
    if len({cost.currency_code for cost, _ in known}) != 1:
        return None
    total = sum((cost.amount * count for cost, count in known), Decimal(0))
    count = sum(count for _, count in known)
    return Money(total / count, known[0][0].currency_code).quantized()


def _key(facts: Facts) -> tuple[str, str]:
    return facts.tool_name, facts.model_alias


def _until(oldest: datetime) -> datetime:
    return oldest + REPORT_LIFETIME
