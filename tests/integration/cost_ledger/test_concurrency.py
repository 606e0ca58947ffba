import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from integration.cost_ledger.builders import (
    make_budget,
    make_capture,
    make_price,
    make_record,
    make_reserve,
    make_usage,
    quantities,
    usd,
)
from integration.cost_ledger.running_ledger import (
    Client,
    RunningLedger,
    running_ledger,
    until_answered,
)
from podium.ledger.v1 import budget_service_pb2 as budgets_pb
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import hold_pb2
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium_kit.embedded.postgres import EmbeddedPostgres
from podium_kit.rpc.identity import Scope

CALL = {"worst_case": quantities(call=1), "sku": "tool/search"}


async def add_call_price(ledger: RunningLedger) -> None:
    price = make_price("tool/search", {"call": ("0.0003", "1")})
    await ledger.admin().prices.CreatePrices(prices_pb.CreatePricesRequest(specs=[price]))


@pytest.mark.parametrize(
    "window",
    [
        budgets_pb.BUDGET_WINDOW_TOTAL,
        budgets_pb.BUDGET_WINDOW_DAY,
        budgets_pb.BUDGET_WINDOW_MONTH,
        budgets_pb.BUDGET_WINDOW_ROLLING,
    ],
)
async def test_sixty_four_at_once_admit_exactly_what_the_budget_covers(
    ledger: RunningLedger, admin: Client, worker: Client, window: int
) -> None:
    await add_call_price(ledger)
    rolling: dict[str, Any] = {"rolling_length": {"seconds": 3600}}
    await admin.add_budget(
        limit="0.0031",
        window=window,
        **rolling if window == budgets_pb.BUDGET_WINDOW_ROLLING else {},
    )
    answers = await asyncio.gather(
        *(worker.ledger.Reserve(make_reserve(f"k{n}", **CALL)) for n in range(64))
    )
    assert sum(answer.HasField("hold") for answer in answers) == 10
    status = await worker.status()
    assert (status.held.amount, status.remaining.amount) == ("0.003", "0.0001")
    later = await worker.ledger.Reserve(make_reserve("later", **CALL))
    assert later.rejection.reason == hold_pb2.REJECTION_REASON_BUDGET_EXHAUSTED


async def test_a_bad_request_in_a_group_fails_alone(worker: Client) -> None:
    async def capture_never_held(number: int) -> grpc.StatusCode:
        with pytest.raises(grpc.aio.AioRpcError) as rejected:
            await worker.ledger.Capture(make_capture(f"never-{number}"))
        return rejected.value.code()

    reserves = [worker.ledger.Reserve(make_reserve(f"k{n}")) for n in range(32)]
    bad = [capture_never_held(number) for number in range(32)]
    answers = await asyncio.gather(*reserves)
    assert all(answer.HasField("hold") for answer in answers)
    assert set(await asyncio.gather(*bad)) == {grpc.StatusCode.NOT_FOUND}


async def test_the_same_key_at_once_is_held_once(worker: Client, admin: Client) -> None:
    await admin.add_budget()
    answers = await asyncio.gather(*(worker.ledger.Reserve(make_reserve("k")) for _ in range(32)))
    assert len({answer.SerializeToString() for answer in answers}) == 1
    assert (await worker.status()).held.amount == "0.01125"


@pytest.mark.chaos
async def test_a_killed_database_loses_and_doubles_nothing(tmp_path: Path) -> None:
    postgres = EmbeddedPostgres(tmp_path / "postgres")
    await postgres.start()
    try:
        url = await postgres.create_database("ledger")
        async with running_ledger(url, tmp_path) as ledger:
            await add_call_price(ledger)
            await ledger.as_("acme", Scope.TENANT_ADMIN).add_budget(limit="1000")
            worker = ledger.as_("acme")
            writing = asyncio.gather(*(_write_calls(worker, n) for n in range(16)))
            for _ in range(3):
                await asyncio.sleep(0.5)
                await postgres.kill()
                await postgres.start()
            written = sum(await writing)
            await _check_books(worker, written)
    finally:
        await postgres.stop()


async def _write_calls(worker: Client, writer: int, calls: int = 60) -> int:
    for number in range(calls):
        key = f"e{writer}/{number}/tool/0"
        await _until_answered(partial(worker.ledger.Reserve, make_reserve(key, **CALL)))
        usage = make_usage(call=1)
        await _until_answered(partial(worker.ledger.Capture, make_capture(key, usage)))
    return calls


async def _until_answered(call: Callable[[], Awaitable[object]]) -> None:
    while True:
        try:
            await call()
        except grpc.aio.AioRpcError as error:
            assert error.code() is grpc.StatusCode.UNAVAILABLE, error
            await asyncio.sleep(0.05)
        else:
            return


async def _check_books(worker: Client, written: int) -> None:
    captures: list[hold_pb2.Entry] = []
    token = ""
    while True:
        request = pb.ListEntriesRequest(
            page_token=token, page_size=1000, kinds=[hold_pb2.ENTRY_KIND_CAPTURE]
        )
        page = await worker.ledger.ListEntries(request)
        captures.extend(page.entries)
        token = page.next_page_token
        if not token:
            break
    assert len(captures) == len({entry.key for entry in captures}) == written
    status = await worker.status()
    assert Decimal(status.posted.amount) == Decimal("0.0003") * written
    assert status.held.amount == "0"


# Two or three calls fill it, so that most examples are rejected something.
LIMIT = Decimal("0.02")
TENANTS = count()
STEPS = st.tuples(
    st.sampled_from(["reserve", "reserve", "capture", "capture", "release", "record", "adjust"]),
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
    await client.add_budget(limit=str(LIMIT))
    for steps in rounds:
        await asyncio.gather(*(attempt(client, *step) for step in steps))
    entries = (await client.ledger.ListEntries(pb.ListEntriesRequest(page_size=1000))).entries
    books = Books()
    for sequence, entry in enumerate(entries, start=1):
        assert entry.sequence == sequence
        books.read(entry)
    status = await client.status()
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
    change = usd(f"-0.00{tokens:04}")
    return client.ledger.Adjust(
        pb.AdjustRequest(key=key, sequence=sequence, change=change, reason="wrong")
    )


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


FAULTS = ("request lost", "answer lost", "sent twice", "sent late", "none")
LATE_S = 0.05
# Says who calls; everything else in the metadata belongs to the hop.
FORWARDED = {"authorization"}


@dataclass
class UnreliableWire(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """Forwards unary calls as bytes, each with a fault drawn from a seed."""

    upstream: grpc.aio.Channel
    random: random.Random
    faults: list[str] = field(default_factory=list)

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> "grpc.RpcMethodHandler[bytes, bytes]":
        method = handler_call_details.method

        async def forward(
            request: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]"
        ) -> bytes:
            return await self._forward(method, request, context)

        return grpc.unary_unary_rpc_method_handler(forward)

    async def _forward(
        self, method: str, request: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]"
    ) -> bytes:
        fault = self.random.choice(FAULTS)
        self.faults.append(fault)
        metadata = [(k, v) for k, v in context.invocation_metadata() or () if k in FORWARDED]

        async def send() -> bytes:
            answer: bytes = await self.upstream.unary_unary(method, bytes, bytes)(
                request, metadata=metadata
            )
            return answer

        if fault == "request lost":
            await context.abort(grpc.StatusCode.UNAVAILABLE, fault)
        if fault == "sent late":
            await asyncio.sleep(self.random.uniform(0, LATE_S))
        copies = 2 if fault == "sent twice" else 1
        answers = await asyncio.gather(*(send() for _ in range(copies)))
        if fault == "answer lost":
            await context.abort(grpc.StatusCode.UNAVAILABLE, fault)
        return answers[-1]


@asynccontextmanager
async def unreliable_wire(port: int, seed: int) -> AsyncIterator[tuple[int, UnreliableWire]]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as upstream:
        wire = UnreliableWire(upstream, random.Random(seed))
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((wire,))
        proxy_port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        yield proxy_port, wire
        await server.stop(0)


CALLS = 60
# A call is held at $0.01125 and captured at $0.00225; forty fit.
WIRE_LIMIT = "0.09675"


@pytest.mark.parametrize("seed", range(3))
async def test_every_call_is_charged_once_over_an_unreliable_wire(
    ledger: RunningLedger, seed: int
) -> None:
    admin = ledger.as_("acme", Scope.TENANT_ADMIN)
    await admin.add_budget(limit=WIRE_LIMIT)
    async with unreliable_wire(ledger.port, seed) as (port, wire):
        worker = replace(ledger, port=port).as_("acme")
        charged = await asyncio.gather(*(_call(worker, f"k{n}") for n in range(CALLS)))
    assert set(wire.faults) == set(FAULTS)
    entries = (await admin.ledger.ListEntries(pb.ListEntriesRequest(page_size=1000))).entries
    captures = [entry.key for entry in entries if entry.kind == hold_pb2.ENTRY_KIND_CAPTURE]
    assert sorted(captures) == sorted(key for key in charged if key)
    status = await admin.status()
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
