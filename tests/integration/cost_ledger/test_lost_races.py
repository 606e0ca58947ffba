import asyncio
from collections.abc import Awaitable

import pytest

from cost_ledger.models import Hold, Rejection
from cost_ledger.posting.batches import Outcome
from integration.cost_ledger.builders import make_budget, make_record, make_reserve, usd
from integration.cost_ledger.running_ledger import Client, RunningLedger
from integration.cost_ledger.second_replica import record, replica, reserve
from integration.cost_ledger.verified import findings_of
from podium.ledger.v1 import budget_service_pb2 as budgets_pb


async def add_budget(admin: Client) -> None:
    request = budgets_pb.CreateBudgetRequest(budget=make_budget("cap", "5"))
    await admin.budgets.CreateBudget(request)


async def lower_limit(admin: Client) -> None:
    request = budgets_pb.UpdateBudgetRequest(id="cap", hard_limit=usd("0.5"))
    request.update_mask.paths.append("hard_limit")
    await admin.budgets.UpdateBudget(request)


async def test_alone_it_is_decided_once(ledger: RunningLedger, worker: Client) -> None:
    await worker.ledger.Record(make_record())
    async with replica(ledger) as other:
        await other.apply(record())
        assert other.decided == 1
    assert not await findings_of(worker)


async def test_an_entry_in_between_is_followed_not_overwritten(
    ledger: RunningLedger, worker: Client
) -> None:
    await worker.ledger.Record(make_record())
    async with replica(ledger) as other:
        entry = await other.apply(record(), lambda: worker.ledger.Record(make_record()))
        assert (getattr(entry, "sequence", 0), other.decided) == (3, 2)
    assert not await findings_of(worker)


async def test_money_held_in_between_is_counted(
    ledger: RunningLedger, worker: Client, admin: Client
) -> None:
    await add_budget(admin)
    async with replica(ledger) as first, replica(ledger) as second:
        await first.apply(reserve("a"))
        held = await first.apply(reserve("b", "3"), lambda: second.apply(reserve("c", "4")))
        assert isinstance(held, Rejection)
        assert first.decided == 2
    assert not await findings_of(worker)


async def test_a_limit_lowered_in_between_decides(
    ledger: RunningLedger, worker: Client, admin: Client
) -> None:
    await add_budget(admin)
    async with replica(ledger) as other:
        assert isinstance(await other.apply(reserve("a", "0.25")), Hold)
        held = await other.apply(reserve("b"), lambda: lower_limit(admin))
        assert isinstance(held, Rejection)
        assert (held.budget_id, other.decided) == ("cap", 2)
    assert not await findings_of(worker)


@pytest.mark.parametrize("amount", ["1", "9"], ids=["held", "rejected"])
async def test_the_same_key_in_between_has_one_answer(
    ledger: RunningLedger, worker: Client, admin: Client, amount: str
) -> None:
    await add_budget(admin)
    await worker.ledger.Reserve(make_reserve("before"))
    async with replica(ledger) as first, replica(ledger) as second:
        again = reserve("k", amount)
        answers = [await first.apply(again, lambda: second.apply(again)), await second.apply(again)]
        assert answers[0] == answers[1]
    kind = Hold if amount == "1" else Rejection
    assert all(isinstance(answer, kind) for answer in answers)
    assert not await findings_of(worker)


async def test_whoever_lost_waits_for_its_turn_for_a_while(
    ledger: RunningLedger, worker: Client
) -> None:
    await worker.ledger.Record(make_record())
    async with replica(ledger) as first, replica(ledger) as second:
        await first.apply(record("a"), lambda: second.apply(record("b")))
        # Under its lock no other moves the head: the other one's entry comes after this one's.
        waiting: list[Awaitable[Outcome]] = []

        async def start() -> None:
            waiting.append(asyncio.ensure_future(second.apply(record("d"))))

        entry = await first.apply(record("c"), start)
        assert first.decided == 1
        later = await waiting[0]
        assert getattr(later, "sequence", 0) > getattr(entry, "sequence", 0)
    assert not await findings_of(worker)
