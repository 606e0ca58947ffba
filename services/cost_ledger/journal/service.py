import logging
from collections.abc import Iterable
from functools import partial
from itertools import groupby

from cost_ledger.errors import InvalidOperation
from cost_ledger.journal.store import JournalStore
from cost_ledger.journal.store_reads import ReportStore
from cost_ledger.models import UNPRICED, Entry, Fallback, Hold
from cost_ledger.posting.batches import Batch, Operation, Outcome, decide
from cost_ledger.posting.books import Books
from cost_ledger.posting.operations import Capture, Expire, Record, Release, Reserve
from cost_ledger.prices.service import PriceBook
from cost_ledger.spend.models import EntryFilter
from podium_kit import telemetry
from podium_kit.postgres.group_commit import GroupCommit
from podium_kit.rpc.errors import DomainError

log = logging.getLogger(__name__)

_unpriced = telemetry.get_meter(__name__).create_counter(
    "podium.ledger.unpriced_calls", "{call}", "calls charged whose price, or usage, is unknown"
)

HOLDS_PER_SWEEP = 1000
OPERATIONS_PER_BATCH_MAX = 1000
OPERATIONS_PER_GROUP = 500
Outcomes = tuple[Outcome, ...]


class CostLedger:
    def __init__(self, journal: JournalStore, reports: ReportStore, prices: PriceBook) -> None:
        self._journal = journal
        self._reports = reports
        self._prices = prices
        # One group at a time: two would be half as large, and a group costs more than its
        # operations do.
        self._groups: GroupCommit[Batch, Outcomes] = GroupCommit(
            self._commit, weight_of=len, weight_max=OPERATIONS_PER_GROUP
        )

    async def apply(self, batch: Iterable[Operation]) -> Outcomes:
        """Applies operations in order, all or none; a rejected reserve is no failure."""
        operations = tuple(batch)
        if len(operations) > OPERATIONS_PER_BATCH_MAX:
            raise InvalidOperation(
                f"{len(operations)} operations; apply at most {OPERATIONS_PER_BATCH_MAX} at once"
            )
        return await self._groups.submit(operations) if operations else ()

    async def release_episode(
        self, tenant: str, episode_id: str, *, keep_dispatched: bool = False
    ) -> tuple[list[Hold], list[str]]:
        """Releases an episode's open holds; returns them, and the keys of those left open."""
        if not episode_id:
            raise InvalidOperation("episode_id is unset")
        holds = await self._reports.open_holds(tenant, episode_id)
        kept = [key for key, dispatched in holds.items() if dispatched and keep_dispatched]
        releases = (Release(tenant, key, only_if_open=True) for key in holds if key not in kept)
        released = [hold for batch in _batches(releases) for hold in await self._released(batch)]
        return released, kept

    async def sweep(self) -> bool:
        """Turns overdue holds into provisional costs, and returns whether there may be more.

        Several replicas may sweep: an expiry happens once.
        """
        overdue = await self._reports.overdue_holds(HOLDS_PER_SWEEP)
        for _, holds in groupby(sorted(overdue), key=lambda hold: hold[0]):
            for batch in _batches(Expire(tenant, key) for tenant, key in holds):
                await self.apply(batch)
        if overdue:
            log.info("%d overdue holds were ended", len(overdue))
        return len(overdue) == HOLDS_PER_SWEEP

    async def entries(self, tenant: str, wanted: EntryFilter) -> list[Entry]:
        return await self._reports.entries(tenant, wanted)

    async def close(self) -> None:
        """Waits until what was submitted is committed."""
        await self._groups.close()

    async def _released(self, batch: Batch) -> list[Hold]:
        return [hold for hold in await self.apply(batch) if isinstance(hold, Hold)]

    async def _commit(self, batches: list[Batch]) -> list[Outcomes | DomainError]:
        books, outcomes = await self._journal.commit(batches, partial(self._decide, batches))
        # After the commit: what was rolled back was not charged.
        for entry in books.written.entries.values():
            if entry.postings.unit == UNPRICED and entry.postings.suspense > 0:
                # One that was cut off has used what no reply says; a price would not help.
                measured = entry.usage is not None and entry.usage.quantities
                unknown = "price" if measured else "usage"
                _unpriced.add(1, {"podium.sku": entry.call.sku, "podium.unknown": unknown})
        return outcomes

    async def _decide(self, batches: list[Batch], books: Books) -> list[Outcomes | DomainError]:
        books.prices = await self._prices.histories(_price_keys(batches, books))
        return [decide(batch, books) for batch in batches]


def _price_keys(batches: list[Batch], books: Books) -> set[tuple[str, str]]:
    asked = {
        (operation.tenant, sku)
        for batch in batches
        for operation in batch
        for sku in _skus(operation)
    }
    held = {
        (hold.call.tenant, sku)
        for hold in books.loaded.holds.values()
        for sku in (hold.call.sku, *(each.sku for each in hold.fallbacks))
    }
    posted = {(tenant, entry.call.sku) for (tenant, _), entry in books.loaded.entries.items()}
    return {key for key in asked | held | posted if key[1]}


def _skus(operation: Operation) -> list[str]:
    match operation:
        case Reserve(sku=sku, alternatives=alternatives, fallbacks=fallbacks):
            return [sku, *(each.sku for each in alternatives), *(each.sku for each in fallbacks)]
        case Record(sku=sku) | Capture(answered_by=Fallback(sku=sku)):
            return [sku]
    return []


def _batches(operations: Iterable[Operation]) -> list[Batch]:
    every = tuple(operations)
    size = OPERATIONS_PER_BATCH_MAX
    return [every[start : start + size] for start in range(0, len(every), size)]
