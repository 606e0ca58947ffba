"""A second writer of the ledger's journal, whose decisions a test can interrupt."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from decimal import Decimal

import asyncpg

from cost_ledger.journal.store import JournalStore
from cost_ledger.models import Subject, UnknownPricePolicy
from cost_ledger.posting.batches import Operation, Outcome, decide
from cost_ledger.posting.books import Books
from cost_ledger.posting.operations import Capture, Record, Reserve
from cost_ledger.store_engine import open_journal_pool
from integration.cost_ledger.running_ledger import RunningLedger, as_service
from podium_kit.metering import Usage, UsageSource
from podium_kit.money import Money

Meanwhile = Callable[[], Awaitable[object]]
NO_USAGE = Usage((), UsageSource.PROVIDER, "")


def record(key: str = "k") -> Record:
    return Record("acme", key, Subject(user="ada"), "", NO_USAGE)


def reserve(key: str = "k", amount: str = "1") -> Reserve:
    return Reserve(
        tenant="acme",
        key=key,
        subject=Subject(user="ada"),
        sku="",
        worst_case=(),
        unknown_price=UnknownPricePolicy.ADMIT_AT_CEILING,
        ceiling=Money(Decimal(amount), "USD"),
        time_to_live_s=60.0,
    )


def capture(key: str = "k") -> Capture:
    return Capture("acme", key, NO_USAGE)


@asynccontextmanager
async def replica(ledger: RunningLedger) -> AsyncIterator["Replica"]:
    async with await open_journal_pool(as_service(ledger.database_url)) as pool:
        yield Replica(pool)


class Replica:
    def __init__(self, pool: asyncpg.Pool) -> None:
        self.pool = pool
        self.decided = 0
        self._store = JournalStore(pool)

    async def apply(self, operation: Operation, meanwhile: Meanwhile | None = None) -> Outcome:
        """`meanwhile` happens after the first reading."""
        [outcome] = await self.apply_all(operation, meanwhile=meanwhile)
        return outcome

    async def apply_all(
        self, *operations: Operation, meanwhile: Meanwhile | None = None
    ) -> tuple[Outcome, ...]:
        self.decided = 0

        async def decided(books: Books) -> tuple[Outcome, ...]:
            self.decided += 1
            if meanwhile and self.decided == 1:
                await meanwhile()
            outcomes = decide(operations, books)
            if isinstance(outcomes, Exception):
                raise outcomes
            return outcomes

        return (await self._store.commit([operations], decided))[1]
