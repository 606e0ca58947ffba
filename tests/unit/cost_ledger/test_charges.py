"""Pages of charges: whoever goes on where a page ends gets every charge once."""

from datetime import UTC, datetime
from decimal import Decimal

from cost_ledger.charges.service import Charges
from cost_ledger.charges.store import ChargeStore
from cost_ledger.models import Call, Entry, EntryKind, Postings, Subject
from cost_ledger.months import Month
from cost_ledger.prices.models import HistoryKey, PriceHistory
from cost_ledger.prices.service import PriceBook

NOW = datetime(2026, 11, 2, tzinfo=UTC)


def make_entry(sequence: int) -> Entry:
    call = Call("acme", f"key-{sequence}", Subject(), "openai/gpt-5")
    postings = Postings(unit="USD", spend=Decimal(1), payable=Decimal(-1))
    return Entry(sequence, EntryKind.RECORD, call, postings, "", NOW, NOW)


class NoPrices(PriceBook):
    def __init__(self) -> None:
        """Keeps nothing."""

    async def histories(self, keys: set[HistoryKey]) -> dict[HistoryKey, PriceHistory]:
        return {}


class BusyJournal(ChargeStore):
    """Three costs more are posted after the first reading of the head."""

    def __init__(self) -> None:
        self.heads = iter((4, 7, 7))

    async def page(
        self, tenant: str, month: Month | None, after: int, limit: int
    ) -> tuple[int, list[tuple[Entry, datetime | None]]]:
        sequences = range(after + 1, 8)
        return next(self.heads), [(make_entry(each), None) for each in sequences[:limit]]


async def test_what_is_posted_while_a_page_is_read_is_not_on_the_next_one_too() -> None:
    charges = Charges(BusyJournal(), NoPrices())
    sequences, after, head = [], 0, 1
    while after < head:
        page = await charges.page("acme", None, after, 500)
        sequences += [charge.entry.sequence for charge in page.charges]
        after, head = page.sequence, page.head
    rest = await charges.page("acme", None, after, 500)
    sequences += [charge.entry.sequence for charge in rest.charges]
    assert sequences == [1, 2, 3, 4, 5, 6, 7]
