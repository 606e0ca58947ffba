import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from typing import Any

import grpc
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from integration.cost_ledger.builders import (
    make_budget,
    make_capture,
    make_record,
    make_reserve,
    make_usage,
    quantities,
    usd,
)
from integration.cost_ledger.running_ledger import Client, RunningLedger
from podium.ledger.v1 import budget_service_pb2 as budgets_pb
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import hold_pb2
from podium_kit.rpc.identity import Scope

# Two or three calls fill it, so that most examples are rejected something.
LIMIT = Decimal("0.02")
TENANTS = count()
STEPS = st.tuples(
    st.sampled_from(["reserve", "reserve", "capture", "capture", "release", "record", "reverse"]),
    st.integers(0, 11),
    st.integers(100, 1500),
)
# What runs at once, round after round.
ROUNDS = st.lists(st.lists(STEPS, min_size=2, max_size=10), min_size=1, max_size=6)


@dataclass
class Books:
    posted: Decimal = Decimal(0)
    holds: dict[str, Decimal] = field(default_factory=dict)

    def read(self, entry: hold_pb2.Entry) -> None:
        amount = Decimal(entry.amount.amount)
        if entry.kind == hold_pb2.ENTRY_KIND_RESERVE:
            self.holds[entry.key] = amount
            assert self.posted + self.held <= LIMIT, f"{entry.key} overshot the budget"
            return
        if entry.kind in (hold_pb2.ENTRY_KIND_CAPTURE, hold_pb2.ENTRY_KIND_RELEASE):
            del self.holds[entry.key]
        if entry.kind != hold_pb2.ENTRY_KIND_RELEASE:
            self.posted += amount

    @property
    def held(self) -> Decimal:
        return sum(self.holds.values(), Decimal(0))


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rounds=ROUNDS)
async def test_the_budget_is_the_sum_of_the_journal_and_is_never_overshot(
    ledger: RunningLedger, rounds: list[list[tuple[str, int, int]]]
) -> None:
    client = ledger.as_(f"tenant-{next(TENANTS)}", Scope.PLATFORM_ADMIN)
    await client.budgets.CreateBudget(
        budgets_pb.CreateBudgetRequest(budget=make_budget(limit=str(LIMIT)))
    )
    for steps in rounds:
        await asyncio.gather(*(attempt(client, *step) for step in steps))
    entries = (await client.ledger.ListEntries(pb.ListEntriesRequest(page_size=1000))).entries
    books = Books()
    for sequence, entry in enumerate(entries, start=1):
        assert entry.sequence == sequence
        books.read(entry)
    status = (await client.budgets.GetBudget(budgets_pb.GetBudgetRequest(id="cap"))).status
    assert Decimal(status.posted.amount) == books.posted
    assert Decimal(status.held.amount) == books.held


async def attempt(client: Client, kind: str, number: int, tokens: int) -> None:
    try:
        await request_of(client, kind, f"e/{number}", tokens)
    except grpc.aio.AioRpcError as error:
        assert error.code() in {
            grpc.StatusCode.NOT_FOUND,
            grpc.StatusCode.ALREADY_EXISTS,
            grpc.StatusCode.FAILED_PRECONDITION,
        }, error


def request_of(client: Client, kind: str, key: str, tokens: int) -> Awaitable[Any]:
    usage = make_usage(output_text=tokens)
    if kind == "reserve":
        worst_case = quantities(output_text=tokens)
        return client.ledger.Reserve(make_reserve(key, worst_case=worst_case))
    if kind == "capture":
        return client.ledger.Capture(make_capture(key, usage))
    if kind == "release":
        return client.ledger.Release(pb.ReleaseRequest(key=key))
    if kind == "record":
        return client.ledger.Record(make_record(key, usage=usage))
    sequence = 1 + tokens % 20
    return client.ledger.Reverse(pb.ReverseRequest(key=key, sequence=sequence, reason="wrong"))


async def test_passing_a_soft_limit_raises_one_alert_for_it(
    ledger: RunningLedger, worker: Client, admin: Client
) -> None:
    budget = make_budget(soft_limits=[usd("0.004"), usd("0.5")])
    await admin.budgets.CreateBudget(budgets_pb.CreateBudgetRequest(budget=budget))
    for number in range(4):
        await worker.ledger.Record(make_record(f"k{number}"))
    engine = create_async_engine(ledger.database_url)
    async with engine.connect() as connection:
        alerts = await connection.execute(text("SELECT budget_id, soft_limit FROM budget_alert"))
        assert alerts.all() == [("cap", Decimal("0.004"))]
    await engine.dispose()
