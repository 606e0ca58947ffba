from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal

from cost_ledger.errors import InvalidSimulation
from cost_ledger.exports.models import Charge
from cost_ledger.models import Entry, Hold
from cost_ledger.posting.chain import GENESIS, link
from cost_ledger.prices.models import PriceHistory
from cost_ledger.prices.specs import PriceKey, PriceSpec, StoredVersion, place
from cost_ledger.spend.models import CALLS_OF
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


@dataclass(slots=True)
class SimulatedCost:
    """The true and simulated cost of the calls of one SKU, model and tool, per currency."""

    sku: str
    model: str
    tool: str
    call_count: int = 0
    posted: defaultdict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    simulated: defaultdict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    unpriced_posted_count: int = 0
    unpriced_simulated_count: int = 0

    def add(self, entry: Entry, simulated: Money | None) -> None:
        sign = CALLS_OF[entry.kind]
        self.call_count += sign
        if entry.cost is None:
            self.unpriced_posted_count += sign
        else:
            self.posted[entry.cost.currency_code] += entry.cost.amount
        if simulated is None:
            self.unpriced_simulated_count += sign
        else:
            self.simulated[simulated.currency_code] += sign * simulated.amount


class OtherPrices:
    def __init__(self, specs: Sequence[PriceSpec], tenant: str, now: datetime) -> None:
        if not specs:
            raise InvalidSimulation("specs is empty; give the prices to simulate")
        self._histories = _histories([it for it in specs if it.key.tenant in ("", tenant)], now)

    def simulate(self, entries: Iterable[Entry]) -> list[SimulatedCost]:
        costs: dict[tuple[str, str, str], SimulatedCost] = {}
        for entry in entries:
            subject = entry.call.subject
            key = (entry.call.sku, subject.model, subject.tool)
            costs.setdefault(key, SimulatedCost(*key)).add(entry, self._cost(entry))
        return [costs[key] for key in sorted(costs)]

    def _cost(self, entry: Entry) -> Money | None:
        call = entry.call
        history = self._histories.get(call.sku)
        if history is None or entry.usage is None:
            return None
        price = history.effective(entry.occur_time, call.service_class, call.region)
        if price is None:
            return None
        return price.cost(price.with_call(entry.usage.quantities), entry.occur_time)


def _histories(specs: Sequence[PriceSpec], now: datetime) -> dict[str, PriceHistory]:
    stored: defaultdict[PriceKey, list[StoredVersion]] = defaultdict(list)
    for number, spec in enumerate(specs):
        versions = stored[spec.key]
        placed = place(spec, versions, str(number), now)
        if placed.before and placed.shortened:
            ended = StoredVersion(placed.shortened, end_is_given=False)
            versions[:] = [ended if it.version == placed.before else it for it in versions]
        versions.append(StoredVersion(placed.version, placed.end_is_given))
    skus: defaultdict[str, list[StoredVersion]] = defaultdict(list)
    for key, versions in stored.items():
        skus[key.sku] += versions
    return {
        sku: PriceHistory(tuple(replace(it.version) for it in found)) for sku, found in skus.items()
    }
