import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from threading import Event
from typing import Any, cast

import pytest

from callers import make_identity
from cost_ledger.audit.anchoring import Anchors
from cost_ledger.audit.service import Audit
from cost_ledger.audit.servicer import AuditServicer
from cost_ledger.audit.store import AuditStore
from cost_ledger.audit.store_anchors import AnchorStore
from cost_ledger.audit.store_invariants import InvariantStore
from cost_ledger.audit.verification import Position, Range, Verification, VerificationStep
from cost_ledger.errors import AuditBusy
from cost_ledger.exports.focus import rows_of as focus_rows_of
from cost_ledger.exports.models import Charge, ChargeLine, Month
from cost_ledger.exports.service import ChargeReader
from cost_ledger.exports.store import ChargeStore
from cost_ledger.exports.tables import CHARGES
from cost_ledger.invoices.models import Invoice, InvoiceLine, Match
from cost_ledger.invoices.store import InvoiceStore
from cost_ledger.models import Call, Entry, EntryKind, Postings, Subject
from cost_ledger.prices.components import PriceComponent
from cost_ledger.prices.models import HistoryKey, PriceHistory
from cost_ledger.prices.service import PriceBook
from podium.ledger.v1 import audit_service_pb2 as pb
from podium_kit.metering import Usage, UsageSource
from podium_kit.rpc.identity import Scope, acting_as


class Computing:
    def __init__(self) -> None:
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()

    async def compute(self, tenant: str) -> None:
        self.running[tenant] += 1
        self.most[tenant] = max(self.most[tenant], self.running[tenant])
        self.most["all"] = max(self.most["all"], self.running.total())
        self.begun.set()
        await self.may_end.wait()
        # Whatever else could begin meanwhile does.
        for _ in range(10):
            await asyncio.sleep(0)
        self.running[tenant] -= 1


class Verifying(Verification):
    def __init__(self, computing: Computing) -> None:
        self._computing = computing

    async def step(self, tenant: str, asked: Range, at: Position) -> VerificationStep:
        await self._computing.compute(tenant)
        return VerificationStep((), (), 0, 0, None)


class Auditing(Audit):
    def __init__(self, computing: Computing) -> None:
        self._computing = computing

    async def reconcile(self, tenant: str, invoice_id: str) -> tuple[Invoice, list[Match]]:
        await self._computing.compute(tenant)
        return Invoice(invoice_id, "openai", Month(2026, 11)), []

    async def simulate(self, tenant: str, specs: Any, window: Any) -> tuple[list[Any], int]:
        await self._computing.compute(tenant)
        return [], 0


def make_servicer(computing: Computing, **settings: float) -> AuditServicer:
    return AuditServicer(
        Auditing(computing),
        Verifying(computing),
        cast(Anchors, None),
        cast(ChargeReader, None),
        **settings,
    )


async def ask(servicer: AuditServicer, tenant: str, which: str = "VerifyLedger") -> None:
    context = cast(Any, None)
    with acting_as(make_identity(tenant, scopes=(Scope.AUDIT_READ,))):
        match which:
            case "VerifyLedger":
                await servicer.VerifyLedger(pb.VerifyLedgerRequest(), context)
            case "ReconcileInvoice":
                await servicer.ReconcileInvoice(
                    pb.ReconcileInvoiceRequest(invoice_id="november"), context
                )
            case "SimulatePrices":
                await servicer.SimulatePrices(pb.SimulatePricesRequest(), context)


@pytest.fixture
def computing() -> Computing:
    return Computing()


async def test_one_of_a_tenant_and_two_of_all_compute_at_once(computing: Computing) -> None:
    servicer = make_servicer(computing)
    computing.may_end.set()
    kinds = ("VerifyLedger", "ReconcileInvoice", "SimulatePrices")
    tenants = ("acme", "globex", "zeta")
    await asyncio.gather(
        *(ask(servicer, tenant, kind) for tenant in tenants for kind in kinds for _ in range(5))
    )
    assert computing.most == {"acme": 1, "globex": 1, "zeta": 1, "all": 2}


async def test_one_whose_turn_does_not_come_is_sent_again_later(computing: Computing) -> None:
    servicer = make_servicer(computing, wait_s=0.01)
    async with asyncio.TaskGroup() as group:
        group.create_task(ask(servicer, "acme"))
        await computing.begun.wait()
        with pytest.raises(AuditBusy) as busy:
            await ask(servicer, "acme")
        assert busy.value.retry_after_s
        computing.may_end.set()
        await ask(servicer, "globex")
    await ask(servicer, "acme")


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


def make_entry(sequence: int) -> Entry:
    call = Call("acme", f"key-{sequence}", Subject(), "openai/gpt-5")
    postings = Postings(unit="USD", spend=Decimal(1), payable=Decimal(-1))
    return Entry(sequence, EntryKind.RECORD, call, postings, "", NOW, NOW)


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
    line = ChargeLine(quantity, component)
    (row,) = focus_rows_of(Charge(replace(make_entry(1), usage=used), None, (line,)))
    assert row["PricingQuantity"] == 10**12
