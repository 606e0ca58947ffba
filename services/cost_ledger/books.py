"""The working set of a group: the rows it read and the rows it will write.

Decisions are made here in memory, in order, while the tenants' heads are locked in
the database. A batch drafts its changes and they join the group's only when all of
its operations succeed, so half a batch is never written.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from cost_ledger.budgets import ScopeAsk, Standing
from cost_ledger.models import BudgetWindowKey, Entry, Hold, Refusal
from cost_ledger.pricing import PriceHistory, PriceVersion

HoldKey = tuple[str, str]
EntryKey = tuple[str, int]
AnswerKey = tuple[str, str, str]
ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a key was answered with, for ever: an entry's sequence or a refusal."""

    request_hash: str
    sequence: int
    refusal: Refusal | None


@dataclass(slots=True)
class Move:
    """What is added to a budget window."""

    posted: Decimal = ZERO
    held: Decimal = ZERO


@dataclass(slots=True)
class Rows:
    """Rows read, or rows to write."""

    heads: dict[str, int] = field(default_factory=dict)
    entries: dict[EntryKey, Entry] = field(default_factory=dict)
    holds: dict[HoldKey, Hold] = field(default_factory=dict)
    answers: dict[AnswerKey, Answer] = field(default_factory=dict)
    corrected: set[EntryKey] = field(default_factory=set)
    moves: dict[BudgetWindowKey, Move] = field(default_factory=dict)

    def absorb(self, later: "Rows") -> None:
        """Adds later rows over these."""
        self.heads |= later.heads
        self.entries |= later.entries
        self.holds |= later.holds
        self.answers |= later.answers
        self.corrected |= later.corrected
        for key, move in later.moves.items():
            self.move(key, move.posted, move.held)

    def move(self, key: BudgetWindowKey, posted: Decimal, held: Decimal) -> None:
        """Adds to a budget window."""
        total = self.moves.setdefault(key, Move())
        total.posted += posted
        total.held += held


@dataclass(slots=True)
class Books:
    """Reads fall through from the draft to what the group wrote to what the database had."""

    now: datetime
    loaded: Rows
    standings: dict[ScopeAsk, list[Standing]] = field(default_factory=dict)
    prices: dict[tuple[str, str], PriceHistory] = field(default_factory=dict)
    written: Rows = field(default_factory=Rows)
    draft: Rows = field(default_factory=Rows)

    def accept(self) -> None:
        """The batch succeeded: its draft joins what the group writes."""
        self.written.absorb(self.draft)
        self.draft = Rows()

    def discard(self) -> None:
        """The batch failed: nothing of it is written."""
        self.draft = Rows()

    def hold(self, tenant: str, key: str) -> Hold | None:
        """The hold as it stands."""
        at = (tenant, key)
        return self.draft.holds.get(at) or self.written.holds.get(at) or self.loaded.holds.get(at)

    def entry(self, tenant: str, sequence: int) -> Entry | None:
        """A journal entry."""
        at = (tenant, sequence)
        layers = (self.draft.entries, self.written.entries, self.loaded.entries)
        return next((layer[at] for layer in layers if at in layer), None)

    def answer(self, tenant: str, operation: str, key: str) -> Answer | None:
        """What the key was answered with before."""
        at = (tenant, operation, key)
        layers = (self.draft.answers, self.written.answers, self.loaded.answers)
        return next((layer[at] for layer in layers if at in layer), None)

    def is_corrected(self, tenant: str, sequence: int) -> bool:
        """Whether a reversal or a settlement names the entry."""
        at = (tenant, sequence)
        return any(at in rows.corrected for rows in (self.draft, self.written, self.loaded))

    def next_sequence(self, tenant: str) -> int:
        """The sequence of the tenant's next entry: a count without gaps."""
        layers = (self.draft.heads, self.written.heads, self.loaded.heads)
        head = next(layer[tenant] for layer in layers if tenant in layer)
        self.draft.heads[tenant] = head + 1
        return head + 1

    def used(self, standing: Standing) -> Decimal:
        """Posted and held in the window, with what this group has moved so far."""
        moved = self._moved(self.written, standing) + self._moved(self.draft, standing)
        return standing.used + moved

    def price(
        self, tenant: str, sku: str, at: datetime, service_class: str = "", region: str = ""
    ) -> PriceVersion | None:
        """The price that holds at a time; None: unknown."""
        history = self.prices.get((tenant, sku))
        return history.effective(at, service_class, region) if history else None

    def price_version(self, tenant: str, sku: str, version_id: str) -> PriceVersion | None:
        """A version by its id."""
        history = self.prices.get((tenant, sku))
        return history.version(version_id) if history and version_id else None

    def _moved(self, rows: Rows, standing: Standing) -> Decimal:
        return sum((move.posted + move.held for move in _within(rows, standing)), ZERO)


def _within(rows: Rows, standing: Standing) -> Iterable[Move]:
    if standing.first == standing.start:
        move = rows.moves.get(window_key(standing))
        return [move] if move else []
    return [
        move
        for key, move in rows.moves.items()
        if (key.tenant, key.budget_id) == (standing.tenant, standing.budget_id)
        and standing.first <= key.start <= standing.start
    ]


def window_key(standing: Standing) -> BudgetWindowKey:
    """The window row that new money of a standing goes to."""
    return BudgetWindowKey(
        standing.tenant, standing.budget_id, standing.start, standing.limit.currency_code
    )
