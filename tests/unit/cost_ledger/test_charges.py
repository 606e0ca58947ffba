from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

from cost_ledger.exports.focus import rows_of as focus_rows_of
from cost_ledger.exports.models import Charge, ChargeLine
from cost_ledger.exports.months import Month
from cost_ledger.exports.service import ChargeReader
from cost_ledger.exports.store import ChargeStore
from cost_ledger.exports.tables import CHARGES
from cost_ledger.models import Call, Entry, EntryKind, Postings, Subject
from cost_ledger.prices.components import PriceComponent
from cost_ledger.prices.models import HistoryKey, PriceHistory
from cost_ledger.prices.service import PriceBook
from podium_kit.metering import Usage, UsageSource

NOW = datetime(2026, 11, 2, tzinfo=UTC)


def make_entry(sequence: int) -> Entry:
    call = Call("acme", f"key-{sequence}", Subject(), "openai/gpt-5")
    postings = Postings(unit="USD", spend=Decimal(1), payable=Decimal(-1))
    return Entry(sequence, EntryKind.RECORD, call, postings, "", NOW, NOW)


class NoPrices(PriceBook):
    def __init__(self) -> None: ...

    async def histories(self, keys: set[HistoryKey]) -> dict[HistoryKey, PriceHistory]:
        return {}


class BusyJournal(ChargeStore):
    def __init__(self) -> None:
        self.heads = iter((4, 7, 7))

    async def page(
        self, tenant: str, month: Month | None, after: int, limit: int
    ) -> tuple[int, list[tuple[Entry, datetime | None]]]:
        sequences = range(after + 1, 8)
        return next(self.heads), [(make_entry(each), None) for each in sequences[:limit]]


async def test_what_is_posted_while_a_page_is_read_is_not_on_the_next_one_too() -> None:
    charges = ChargeReader(BusyJournal(), NoPrices())
    sequences, after, head = [], 0, 1
    while after < head:
        page = await charges.page("acme", None, after, 500)
        sequences += [charge.entry.sequence for charge in page.charges]
        after, head = page.sequence, page.head
    rest = await charges.page("acme", None, after, 500)
    sequences += [charge.entry.sequence for charge in rest.charges]
    assert sequences == [1, 2, 3, 4, 5, 6, 7]


def test_a_call_of_which_nothing_is_known_has_a_row_without_an_amount() -> None:
    unknown = Postings(unit="XXX", suspense=Decimal(1), payable=Decimal(-1))
    cut_off = replace(
        make_entry(3), postings=unknown, usage=Usage.of(UsageSource.ESTIMATED), hash=bytes(32)
    )
    (row,) = CHARGES.texts_of(Charge(cut_off, None, ()))
    values = dict(zip([column.name for column in CHARGES.columns], row, strict=True))
    assert (values["sequence"], values["key"]) == ("3", "key-3")
    assert (values["quantity"], values["amount"], values["currency"]) == ("", "", "")


def test_a_call_that_used_a_lot_of_what_is_priced_by_the_unit_is_in_a_focus_export() -> None:
    used = Usage.of(UsageSource.PROVIDER, input_fresh=10**12)
    (quantity,) = used.quantities
    component = PriceComponent(quantity.dimension, Decimal("0.000001"), Decimal(1))
    line = ChargeLine(quantity, component, 1)
    (row,) = focus_rows_of(Charge(replace(make_entry(1), usage=used), None, (line,)))
    assert row["PricingQuantity"] == 10**12
