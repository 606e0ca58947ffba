from dataclasses import dataclass
from datetime import datetime

from cost_ledger.exports.models import Charge
from cost_ledger.models import Entry, Hold
from cost_ledger.posting.chain import GENESIS, link
from podium_kit.anchors import DailyRoot, TenantHead
from podium_kit.money import Money


@dataclass(frozen=True, slots=True)
class BudgetDecision:
    budget_id: str
    window_start: datetime
    hard_limit: Money | None
    posted: Money | None
    held: Money | None


@dataclass(frozen=True, slots=True)
class EntryRecords:
    entry: Entry
    previous: Entry | None
    hold: Hold | None
    related: tuple[Entry, ...]
    budgets: tuple[BudgetDecision, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    found: EntryRecords
    charge: Charge
    anchor_day: str

    @property
    def previous_hash(self) -> bytes:
        return self.found.previous.hash if self.found.previous else GENESIS

    @property
    def recomputed_hash(self) -> bytes:
        return link(self.previous_hash, self.found.entry)


@dataclass(frozen=True, slots=True)
class Head:
    tenant: str
    anchored_sequence: int
    sequence: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Anchor:
    root: DailyRoot
    signature: bytes
    public_key: str
    create_time: datetime


@dataclass(frozen=True, slots=True)
class AnchoredHead:
    head: TenantHead
    tenant_index: int
    tenant_path: tuple[bytes, ...]
