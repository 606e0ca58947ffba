import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal
from functools import partial
from pathlib import Path

import grpc
import pytest

from integration.cost_ledger.builders import (
    make_budget,
    make_capture,
    make_price,
    make_reserve,
    make_usage,
    quantities,
)
from integration.cost_ledger.running_ledger import Client, RunningLedger, running_ledger
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


async def add_budget(admin: Client, **fields: object) -> None:
    await admin.budgets.CreateBudget(
        budgets_pb.CreateBudgetRequest(budget=make_budget(**fields))  # type: ignore[arg-type]
    )


async def status_of(client: Client) -> budgets_pb.BudgetStatus:
    return (await client.budgets.GetBudget(budgets_pb.GetBudgetRequest(id="cap"))).status


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
    rolling = {"rolling_length": {"seconds": 3600}}
    await add_budget(
        admin,
        limit="0.0031",
        window=window,
        **rolling if window == budgets_pb.BUDGET_WINDOW_ROLLING else {},
    )
    answers = await asyncio.gather(
        *(worker.ledger.Reserve(make_reserve(f"k{n}", **CALL)) for n in range(64))
    )
    assert sum(answer.HasField("hold") for answer in answers) == 10
    status = await status_of(worker)
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
    await add_budget(admin)
    answers = await asyncio.gather(*(worker.ledger.Reserve(make_reserve("k")) for _ in range(32)))
    assert len({answer.SerializeToString() for answer in answers}) == 1
    assert (await status_of(worker)).held.amount == "0.01125"


@pytest.mark.chaos
async def test_a_killed_database_loses_and_doubles_nothing(tmp_path: Path) -> None:
    postgres = EmbeddedPostgres(tmp_path / "postgres")
    await postgres.start()
    try:
        url = await postgres.create_database("ledger")
        async with running_ledger(url, tmp_path) as ledger:
            await add_call_price(ledger)
            await add_budget(ledger.as_("acme", Scope.TENANT_ADMIN), limit="1000")
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
    status = await status_of(worker)
    assert Decimal(status.posted.amount) == Decimal("0.0003") * written
    assert status.held.amount == "0"
