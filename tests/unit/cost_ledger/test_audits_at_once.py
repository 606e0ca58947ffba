import asyncio
from collections import Counter
from typing import Any, cast

import pytest

from callers import make_identity
from cost_ledger.audit.anchoring import Anchors
from cost_ledger.audit.service import Audit
from cost_ledger.audit.servicer import AuditServicer
from cost_ledger.audit.verification import Position, Range, Verification, VerificationStep
from cost_ledger.errors import AuditBusy
from cost_ledger.exports.months import Month
from cost_ledger.exports.service import ChargeReader
from cost_ledger.invoices.models import Invoice, Match
from podium.ledger.v1 import audit_service_pb2 as pb
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
