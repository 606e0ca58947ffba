import asyncio
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from threading import Event
from typing import cast

from cost_ledger.audit.anchoring import Anchors
from cost_ledger.audit.service import Audit
from cost_ledger.audit.store import AuditStore
from cost_ledger.audit.store_anchors import AnchorStore
from cost_ledger.audit.store_invariants import InvariantStore
from cost_ledger.audit.verification import Position, Range, Verification
from cost_ledger.exports.months import Month
from cost_ledger.exports.service import ChargeReader
from cost_ledger.invoices.models import Invoice, InvoiceLine, Match
from cost_ledger.invoices.store import InvoiceStore
from cost_ledger.models import Call, Entry, EntryKind, Postings, Subject
from cost_ledger.prices.models import HistoryKey, PriceHistory
from cost_ledger.prices.service import PriceBook

NOW = datetime(2026, 11, 2, tzinfo=UTC)


class Turn:
    def __init__(self) -> None:
        self._came = Event()
        asyncio.get_running_loop().call_soon(self._came.set)

    def wait(self) -> None:
        assert self._came.wait(timeout=10), "the event loop is held up"


class WaitingHash(bytes):
    turn: Turn

    def __ne__(self, other: object) -> bool:
        self.turn.wait()
        return bytes.__ne__(self, other)


class Journal(AuditStore):
    def __init__(self, turn: Turn) -> None:
        self._hash = WaitingHash(32)
        self._hash.turn = turn

    async def head(self, tenant: str) -> int:
        return 1

    async def entries(self, tenant: str, first: int, last: int) -> list[Entry]:
        call = Call(tenant, "k", Subject(), "openai/gpt-5")
        entry = Entry(1, EntryKind.DISPATCH, call, Postings(), "", NOW, NOW, hash=self._hash)
        return [entry] if first <= 1 <= last else []


class NoPrices(PriceBook):
    def __init__(self) -> None: ...

    async def histories(self, keys: set[HistoryKey]) -> dict[HistoryKey, PriceHistory]:
        return {}


async def test_a_step_of_a_verification_leaves_the_event_loop_to_others() -> None:
    verification = Verification(
        Journal(Turn()), cast(InvariantStore, None), cast(AnchorStore, None), NoPrices()
    )
    step = await verification.step("acme", Range(1, 0, 100), Position(0))
    assert [each.row for each in step.findings] == ["entry 1"]


class WaitingLines(list[InvoiceLine]):
    turn: Turn

    def __iter__(self) -> Iterator[InvoiceLine]:
        self.turn.wait()
        return super().__iter__()


class Invoices(InvoiceStore):
    def __init__(self, turn: Turn) -> None:
        self._lines = WaitingLines()
        self._lines.turn = turn

    async def find(self, tenant: str, invoice_id: str) -> Invoice | None:
        return Invoice(invoice_id, "openai", Month(2026, 11))

    async def sides(self, tenant: str, invoice: Invoice) -> tuple[list[InvoiceLine], list[Entry]]:
        return self._lines, []

    async def store(self, tenant: str, invoice_id: str, matches: Iterable[Match]) -> None: ...


async def test_a_comparison_of_an_invoice_leaves_the_event_loop_to_others() -> None:
    audit = Audit(
        cast(AuditStore, None), Invoices(Turn()), cast(Anchors, None), cast(ChargeReader, None)
    )
    _, matches = await audit.reconcile("acme", "november")
    assert not matches
