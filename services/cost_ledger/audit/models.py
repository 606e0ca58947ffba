"""Explanations of entries, and signed roots."""

from dataclasses import dataclass
from datetime import datetime

from cost_ledger.exports.models import Charge
from cost_ledger.models import Entry, Hold
from cost_ledger.posting.chain import GENESIS, link
from podium_kit.anchors import DailyRoot, TenantHead
from podium_kit.money import Money


@dataclass(frozen=True, slots=True)
class BudgetDecision:
    """The current state of a budget window that the entry counts in."""

    budget_id: str
    window_start: datetime
    hard_limit: Money | None
    posted: Money | None
    held: Money | None


@dataclass(frozen=True, slots=True)
class EntryRecords:
    """The records of an entry in the database."""

    entry: Entry
    previous: Entry | None
    hold: Hold | None
    related: tuple[Entry, ...]
    budgets: tuple[BudgetDecision, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """An entry, the parts of its amount, and why it can be trusted."""

    found: EntryRecords
    charge: Charge
    anchor_day: str

    @property
    def previous_hash(self) -> bytes:
        return self.found.previous.hash if self.found.previous else GENESIS

    @property
    def recomputed_hash(self) -> bytes:
        """The hash that follows from the content."""
        return link(self.previous_hash, self.found.entry)


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a tenant's journal, and the last sequence that a root covers."""

    tenant: str
    anchored_sequence: int
    sequence: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Anchor:
    """A signed root."""

    root: DailyRoot
    signature: bytes
    public_key: str
    create_time: datetime


@dataclass(frozen=True, slots=True)
class AnchoredHead:
    """A tenant's leaf under a root, with its way to it."""

    head: TenantHead
    tenant_index: int
    tenant_path: tuple[bytes, ...]
