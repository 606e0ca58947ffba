import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cost_ledger.audit.anchoring import Anchors
from cost_ledger.audit.models import Anchor, EntryRecords, Explanation, OtherPrices, SimulatedCost
from cost_ledger.audit.store import AuditStore
from cost_ledger.errors import EntryUnknown, InvoiceNotFound, NothingAnchored
from cost_ledger.exports.service import ChargeReader
from cost_ledger.invoices.models import Invoice, InvoiceLine, Match, MatchState
from cost_ledger.invoices.reconciliation import reconcile
from cost_ledger.invoices.store import InvoiceStore
from cost_ledger.prices.specs import PriceSpec
from podium_kit.anchors import EntryProof


@dataclass(frozen=True, slots=True)
class Window:
    """Calls that happened in [start, end), None without a bound, posted after a sequence; of one
    episode, or of all for "".
    """

    start: datetime | None
    end: datetime | None
    after: int
    limit: int
    episode_id: str = ""


class Audit:
    def __init__(
        self, journal: AuditStore, invoices: InvoiceStore, anchors: Anchors, charges: ChargeReader
    ) -> None:
        self._journal = journal
        self._invoices = invoices
        self._anchors = anchors
        self._charges = charges

    async def explain(self, tenant: str, sequence_or_key: str) -> Explanation:
        """Raises EntryUnknown, also for another tenant's entry."""
        found = await self._find(tenant, sequence_or_key)
        charge = (await self._charges.of(tenant, [(found.entry, None)]))[0]
        try:
            _, anchor = await self._anchors.prove(tenant, found.entry.sequence)
        except NothingAnchored:
            return Explanation(found, charge, "")
        return Explanation(found, charge, anchor.root.day)

    async def prove(
        self, tenant: str, sequence_or_key: str
    ) -> tuple[EntryRecords, EntryProof, Anchor]:
        found = await self._find(tenant, sequence_or_key)
        return found, *(await self._anchors.prove(tenant, found.entry.sequence))

    async def add_invoice(self, tenant: str, invoice: Invoice, lines: Sequence[InvoiceLine]) -> int:
        """Returns how many lines were new. Raises InvoiceConflict."""
        return await self._invoices.add(tenant, invoice, lines)

    async def reconcile(self, tenant: str, invoice_id: str) -> tuple[Invoice, list[Match]]:
        invoice = await self._invoice(tenant, invoice_id)
        sides = await self._invoices.sides(tenant, invoice)
        # In a thread: a large invoice takes seconds, in which others post.
        matches = await asyncio.to_thread(reconcile, invoice, *sides)
        await self._invoices.store(tenant, invoice_id, matches)
        return invoice, matches

    async def matches(
        self, tenant: str, invoice_id: str, states: Sequence[MatchState], after: int, limit: int
    ) -> list[tuple[int, Match]]:
        await self._invoice(tenant, invoice_id)
        return await self._invoices.matches(tenant, invoice_id, states, after, limit)

    async def simulate(
        self, tenant: str, specs: Sequence[PriceSpec], window: Window
    ) -> tuple[list[SimulatedCost], int]:
        """Prices a page of calls anew; returns the costs and the last sequence, 0 on the last
        page."""
        prices = OtherPrices(specs, tenant, datetime.now(UTC))
        entries = await self._journal.costs(
            tenant,
            window.start,
            window.end,
            after=window.after,
            limit=window.limit,
            episode_id=window.episode_id,
        )
        last = entries[-1].sequence if len(entries) == window.limit else 0
        return await asyncio.to_thread(prices.simulate, entries), last

    async def _find(self, tenant: str, sequence_or_key: str) -> EntryRecords:
        found = await self._journal.find(tenant, sequence_or_key)
        if found is None:
            raise EntryUnknown(tenant, sequence_or_key)
        return found

    async def _invoice(self, tenant: str, invoice_id: str) -> Invoice:
        invoice = await self._invoices.find(tenant, invoice_id)
        if invoice is None:
            raise InvoiceNotFound(invoice_id)
        return invoice
