"""Measurements of adapters, merged over their processes.

What was measured in the last ten minutes that a tool was called counts: latency of an hour before
says nothing about then. A tool that no one calls keeps what is known of it for a week. Latencies
come as histograms and usage as sums, so merging is addition and loses nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby

from cachetools import LRUCache

from podium_kit.metering import LatencyHistogram, Usage, UsageSource
from tool_registry.errors import InvalidFacts
from tool_registry.facts.store import FactsStore, Kept
from tool_registry.models import Facts, FactsReport, FactsSource

# How much older than a tool's newest report another one may be, and still count.
REPORT_LIFETIME = timedelta(minutes=10)
# An expert that is asked no more because nothing is known of it would never be known again.
LAST_KNOWN = timedelta(days=7)
TENANTS_KEPT = 1_000
Clock = Callable[[], datetime]
Subject = tuple[str, str]


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, eq=False)
class Measurements:
    facts: Mapping[Subject, Facts]
    unavailable: frozenset[str]
    """Tools with a model that cannot answer now."""
    version: int
    until: datetime


class MeasurementBook:
    def __init__(self, store: FactsStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: LRUCache[str, Measurements] = LRUCache(TENANTS_KEPT)

    async def of(self, tenant: str, version: int) -> Measurements:
        now = self._clock()
        known = self._known.get(tenant)
        if known is None or known.version < version or known.until < now:
            before = known.facts if known else {}
            known = self._known[tenant] = await self._read(tenant, version, now, before)
        return known

    async def record(self, source: FactsSource, reports: Sequence[tuple[str, Facts]]) -> None:
        """Each report comes with the owner of its tool."""
        for _, facts in reports:
            check_facts(facts)
        now = self._clock()
        # A window that ran empty says nothing new.
        measured = [(owner, facts) for owner, facts in reports if facts.sample_count]
        await self._store.record(source, measured, now, Kept(REPORT_LIFETIME, LAST_KNOWN))

    async def _read(
        self, tenant: str, version: int, now: datetime, before: Mapping[Subject, Facts]
    ) -> Measurements:
        reports = await self._store.reports(tenant, now - LAST_KNOWN)
        oldest = min((report.time for report in reports), default=now)
        merged = merge(_seen_by(tenant, report, now) for report in reports)
        recoveries = {
            key: each.unavailable.until for key, each in merged.items() if each.unavailable
        }
        # The same object means that nothing changed, so that nothing is described again.
        facts = {key: before[key] if before.get(key) == new else new for key, new in merged.items()}
        until = min([oldest + LAST_KNOWN, *recoveries.values()])
        return Measurements(facts, frozenset(tool for tool, _ in recoveries), version, until)


def merge(facts: Iterable[Facts]) -> dict[Subject, Facts]:
    """One per tool and model; `facts` are sorted by them. No samples weigh nothing."""
    measured = (entry for entry in facts if entry.sample_count)
    return {key: _merged(list(group)) for key, group in groupby(measured, _key)}


def _seen_by(tenant: str, report: FactsReport, now: datetime) -> Facts:
    """One tenant's arguments, keys and rate limits say nothing about another's calls."""
    unavailable = report.facts.unavailable
    if unavailable is None or (report.tenant == tenant and unavailable.until > now):
        return report.facts
    return replace(report.facts, unavailable=None)


def check_facts(facts: Facts) -> None:
    if facts.sample_count != facts.latencies.total or any(
        count < 0 for count in facts.latencies.counts.values()
    ):
        raise InvalidFacts(
            f"{facts.tool_name}: sample_count is {facts.sample_count},"
            f" but the histogram holds {facts.latencies.total} latencies"
        )
    if not 0 <= facts.success_rate <= 1:
        raise InvalidFacts(f"{facts.tool_name}: success_rate must be in [0, 1]")


def _merged(group: list[Facts]) -> Facts:
    total = sum(entry.sample_count for entry in group)
    latencies = LatencyHistogram()
    for entry in group:
        latencies.merge(entry.latencies)
    succeeded = sum(entry.success_rate * entry.sample_count for entry in group)
    used = [Usage(entry.usage, UsageSource.MEASURED) for entry in group]
    name, alias = _key(group[0])
    found = [entry.unavailable for entry in group if entry.unavailable]
    last = max(found, key=lambda each: each.until, default=None)
    return Facts(name, alias, total, latencies, succeeded / total, Usage.total(used), last)


def _key(facts: Facts) -> Subject:
    return facts.tool_name, facts.model_alias
