import asyncio
from dataclasses import replace
from decimal import Decimal
from functools import partial

import pytest

from integration.cost_ledger.builders import make_budget, make_capture, make_reserve
from integration.cost_ledger.complaints.books import until_answered
from integration.cost_ledger.running_ledger import Client, RunningLedger
from integration.cost_ledger.unreliable_wire import FAULTS, unreliable_wire
from podium.ledger.v1 import budget_service_pb2 as budgets_pb
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import hold_pb2
from podium_kit.rpc.identity import Scope

CALLS = 60
# A call is held at $0.01125 and captured at $0.00225; forty fit.
LIMIT = "0.09675"


@pytest.mark.parametrize("seed", range(3))
async def test_every_call_is_charged_once_over_an_unreliable_wire(
    ledger: RunningLedger, seed: int
) -> None:
    admin = ledger.as_("acme", Scope.TENANT_ADMIN)
    await admin.budgets.CreateBudget(
        budgets_pb.CreateBudgetRequest(budget=make_budget(limit=LIMIT))
    )
    async with unreliable_wire(ledger.port, seed) as (port, wire):
        worker = replace(ledger, port=port).as_("acme")
        charged = await asyncio.gather(*(_call(worker, f"k{n}") for n in range(CALLS)))
    assert set(wire.faults) == set(FAULTS)
    entries = (await admin.ledger.ListEntries(pb.ListEntriesRequest(page_size=1000))).entries
    captures = [entry.key for entry in entries if entry.kind == hold_pb2.ENTRY_KIND_CAPTURE]
    assert sorted(captures) == sorted(key for key in charged if key)
    status = (await admin.budgets.GetBudget(budgets_pb.GetBudgetRequest(id="cap"))).status
    assert Decimal(status.posted.amount) == Decimal("0.00225") * len(captures)
    assert status.held.amount == "0"


async def _call(worker: Client, key: str) -> str:
    """Returns the key when the call was admitted and paid for; a rejection stays a rejection."""
    reserve = partial(worker.ledger.Reserve, make_reserve(key))
    answer = await until_answered(reserve)
    assert await until_answered(reserve) == answer
    if not answer.HasField("hold"):
        return ""
    await until_answered(partial(worker.ledger.Capture, make_capture(key)))
    return key
