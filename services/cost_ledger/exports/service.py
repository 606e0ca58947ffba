from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from cost_ledger.exports.models import Charge, Month, charge_of
from cost_ledger.exports.store import ChargeStore
from cost_ledger.models import Entry
from cost_ledger.prices.service import PriceBook

CHARGES_PER_RESPONSE = 500


@dataclass(frozen=True, slots=True)
class ChargesPage:
    """Charges, and how far into the journal they reach."""

    charges: tuple[Charge, ...]
    sequence: int
    head: int


class ChargeReader:
    def __init__(self, store: ChargeStore, prices: PriceBook) -> None:
        self._store = store
        self._prices = prices

    async def page(self, tenant: str, month: Month | None, after: int, limit: int) -> ChargesPage:
        head, rows = await self._store.page(tenant, month, after, limit)
        charges = await self.of(tenant, rows)
        last = rows[-1][0].sequence if rows else 0
        # The page may hold what was posted after the head was read; the next one must not.
        head = max(head, last)
        return ChargesPage(charges, last if len(rows) == limit else head, head)

    async def pages(
        self, tenant: str, month: Month | None, after: int
    ) -> AsyncIterator[ChargesPage]:
        """Every page after a sequence; at least one, which may be empty."""
        while True:
            page = await self.page(tenant, month, after, CHARGES_PER_RESPONSE)
            yield page
            if page.sequence >= page.head:
                return
            after = page.sequence

    async def of(
        self, tenant: str, rows: Sequence[tuple[Entry, datetime | None]]
    ) -> tuple[Charge, ...]:
        keys = {(tenant, entry.call.sku) for entry, _ in rows if entry.call.sku}
        histories = await self._prices.histories(keys)
        return tuple(
            charge_of(entry, histories.get((tenant, entry.call.sku)), corrected)
            for entry, corrected in rows
        )
