"""The working set of a group: the rows it read and the rows it will write.

Decisions are made here in memory, in order, while the tenants' heads are locked in
the database. A batch drafts its changes and they join the group's only when all of
its operations succeed, so half a batch is never written.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import chain

from cost_ledger.budgets.models import BudgetScope, ScopeQuery, WindowStatus
from cost_ledger.models import ZERO, BudgetWindowKey, Entry, Hold, IdempotencyRecord
from cost_ledger.prices.models import PriceHistory, PriceVersion

HoldKey = tuple[str, str]
EntryKey = tuple[str, int]
IdempotencyKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a tenant's journal: the last sequence, its hash, and the closed time.

    `budget_changes` counts changes of the tenant's budgets, which move no sequence.
    """

    sequence: int
    hash: bytes
    closed_before: datetime | None = None
    budget_changes: int = 0


@dataclass(frozen=True, slots=True)
class Corrections:
    is_taken_back: bool = False
    adjusted: Decimal = ZERO


@dataclass(slots=True)
class BudgetDelta:
    posted: Decimal = ZERO
    held: Decimal = ZERO


@dataclass(slots=True)
class Rows:
    heads: dict[str, Head] = field(default_factory=dict)
    entries: dict[EntryKey, Entry] = field(default_factory=dict)
    holds: dict[HoldKey, Hold] = field(default_factory=dict)
    answers: dict[IdempotencyKey, IdempotencyRecord] = field(default_factory=dict)
    corrections: dict[EntryKey, Corrections] = field(default_factory=dict)
    deltas: dict[BudgetWindowKey, BudgetDelta] = field(default_factory=dict)

    def absorb(self, later: "Rows") -> None:
        self.heads |= later.heads
        self.entries |= later.entries
        self.holds |= later.holds
        self.answers |= later.answers
        self.corrections |= later.corrections
        for key, delta in later.deltas.items():
            self.add_delta(key, delta.posted, delta.held)

    def add_delta(self, key: BudgetWindowKey, posted: Decimal, held: Decimal) -> None:
        total = self.deltas.setdefault(key, BudgetDelta())
        total.posted += posted
        total.held += held


@dataclass(slots=True)
class Books:
    """Reads fall through from the draft to what the group wrote to what the database had."""

    now: datetime
    loaded: Rows
    statuses: dict[ScopeQuery, list[WindowStatus]] = field(default_factory=dict)
    prices: dict[tuple[str, str], PriceHistory] = field(default_factory=dict)
    written: Rows = field(default_factory=Rows)
    draft: Rows = field(default_factory=Rows)

    def accept(self) -> None:
        self.written.absorb(self.draft)
        self.draft = Rows()

    def discard(self) -> None:
        self.draft = Rows()

    def hold(self, tenant: str, key: str) -> Hold | None:
        at = (tenant, key)
        return self.draft.holds.get(at) or self.written.holds.get(at) or self.loaded.holds.get(at)

    def entry(self, tenant: str, sequence: int) -> Entry | None:
        at = (tenant, sequence)
        layers = (self.draft.entries, self.written.entries, self.loaded.entries)
        return next((layer[at] for layer in layers if at in layer), None)

    def answer(self, tenant: str, operation: str, key: str) -> IdempotencyRecord | None:
        at = (tenant, operation, key)
        layers = (self.draft.answers, self.written.answers, self.loaded.answers)
        return next((layer[at] for layer in layers if at in layer), None)

    def corrections(self, tenant: str, sequence: int) -> Corrections:
        at = (tenant, sequence)
        layers = (self.draft.corrections, self.written.corrections, self.loaded.corrections)
        return next((layer[at] for layer in layers if at in layer), Corrections())

    def head(self, tenant: str) -> Head:
        layers = (self.draft.heads, self.written.heads, self.loaded.heads)
        return next(layer[tenant] for layer in layers if tenant in layer)

    def is_closed(self, tenant: str, at: datetime) -> bool:
        closed_before = self.head(tenant).closed_before
        return closed_before is not None and at < closed_before

    def used(self, status: WindowStatus) -> Decimal:
        """Posted and held in the window, with what this group has moved so far."""
        moved = sum((each.posted + each.held for each in self._deltas(status)), ZERO)
        return status.used + moved

    def held(self, status: WindowStatus) -> Decimal:
        """Returns the part of the used amount that calls in progress may give back."""
        return status.held + sum((each.held for each in self._deltas(status)), ZERO)

    def price(
        self, tenant: str, sku: str, at: datetime, service_class: str = "", region: str = ""
    ) -> PriceVersion | None:
        history = self.prices.get((tenant, sku))
        return history.effective(at, service_class, region) if history else None

    def price_version(self, tenant: str, sku: str, version_id: str) -> PriceVersion | None:
        history = self.prices.get((tenant, sku))
        return history.version(version_id) if history and version_id else None

    def _deltas(self, status: WindowStatus) -> Iterable[BudgetDelta]:
        return chain(_within(self.written, status), _within(self.draft, status))


def _within(rows: Rows, status: WindowStatus) -> Iterable[BudgetDelta]:
    if status.first == status.start:
        delta = rows.deltas.get(window_key(status))
        return [delta] if delta else []
    return [
        delta
        for key, delta in rows.deltas.items()
        if (key.tenant, key.budget_id) == (status.tenant, status.budget_id)
        and status.first <= key.start <= status.start
    ]


def window_key(status: WindowStatus) -> BudgetWindowKey:
    return BudgetWindowKey(
        status.tenant,
        status.budget_id,
        status.start,
        status.limit.currency_code,
        status.scope_id if status.scope is BudgetScope.MODEL else "",
    )
