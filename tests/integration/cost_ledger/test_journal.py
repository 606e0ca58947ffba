import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine

from embedded_servers import Database
from integration.cost_ledger.builders import (
    GPT5,
    make_budget,
    make_capture,
    make_price,
    make_record,
    make_reserve,
    make_usage,
    quantities,
    usd,
)
from integration.cost_ledger.running_ledger import Client, RunningLedger, running_ledger
from podium.common.v1 import usage_pb2
from podium.ledger.v1 import budget_service_pb2 as budgets_pb
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import hold_pb2
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium_kit.rpc.identity import Scope


async def entries_of(client: Client, **fields: Any) -> list[hold_pb2.Entry]:
    return list((await client.ledger.ListEntries(pb.ListEntriesRequest(**fields))).entries)


async def report(client: Client, **fields: Any) -> list[pb.SpendRow]:
    return list((await client.ledger.ReportSpend(pb.ReportSpendRequest(**fields))).rows)


@pytest.mark.parametrize("table", ["entry", "idempotency", "price_component"])
@pytest.mark.parametrize("change", ["UPDATE {} SET {} = {}", "DELETE FROM {}", "TRUNCATE {}"])
async def test_nobody_changes_history(ledger: RunningLedger, table: str, change: str) -> None:
    worker = ledger.as_("acme")
    await worker.ledger.Record(make_record("k"))
    column = "dimension" if table == "price_component" else "key"
    engine = create_async_engine(ledger.database_url)
    with pytest.raises(DBAPIError, match="immutable"):
        async with engine.begin() as connection:
            await connection.execute(text(change.format(table, column, column)))
    await engine.dispose()
    assert len(await entries_of(worker)) == 1


async def test_an_overdue_hold_becomes_a_provisional_cost_and_the_actual_one_replaces_it(
    database: Database, tmp_path: Path
) -> None:
    async with running_ledger(
        await database("cost_ledger"), tmp_path, sweep_interval_s=0.05
    ) as ledger:
        await ledger.admin().prices.CreatePrices(
            prices_pb.CreatePricesRequest(specs=[make_price()])
        )
        await ledger.as_("acme", Scope.TENANT_ADMIN).budgets.CreateBudget(
            budgets_pb.CreateBudgetRequest(budget=make_budget())
        )
        worker = ledger.as_("acme")
        for key in ("late", "never-made"):
            await worker.ledger.Reserve(
                make_reserve(key, time_to_live={"nanos": 1000}, dispatched=True)
            )
        kinds = [hold_pb2.ENTRY_KIND_CAPTURE]
        while len(await entries_of(worker, kinds=kinds)) < 2:
            await asyncio.sleep(0.02)
        provisional = (await entries_of(worker, kinds=kinds))[0]
        assert provisional.amount == usd("0.01125")
        assert provisional.usage.source == usage_pb2.USAGE_SOURCE_ESTIMATED
        undo = pb.ReverseRequest(key="undo", sequence=provisional.sequence, reason="why")
        with pytest.raises(grpc.aio.AioRpcError) as rejected:
            await worker.ledger.Reverse(undo)
        assert rejected.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert (await worker.ledger.Capture(make_capture("late"))).entry.amount == usd("0.00225")
        released = await worker.ledger.Release(pb.ReleaseRequest(key="never-made"))
        assert released.hold.state == hold_pb2.HOLD_STATE_RELEASED
        settled = await entries_of(worker, kinds=[hold_pb2.ENTRY_KIND_SETTLE])
        assert [entry.amount for entry in settled] == [usd("-0.01125")] * 2
        status = await worker.budgets.GetBudget(budgets_pb.GetBudgetRequest(id="cap"))
        assert (status.status.posted, status.status.held) == (usd("0.00225"), usd("0"))
        (row,) = await report(worker)
        assert (row.amounts[0], row.call_count) == (usd("0.00225"), 1)


async def test_a_report_sums_by_what_it_is_asked_most_expensive_first(worker: Client) -> None:
    for key, tool, output in (("a", "answer", 100), ("b", "search", 500), ("c", "search", 100)):
        usage = make_usage(output_text=output)
        subject = {"episode_id": "e1", "tool": tool, "model": GPT5}
        await worker.ledger.Record(make_record(key, subject=subject, usage=usage))
    rows = await report(worker, group_by=[pb.SPEND_DIMENSION_TOOL, pb.SPEND_DIMENSION_EPISODE])
    sums = [(list(row.values), row.amounts[0].amount, row.call_count) for row in rows]
    assert sums == [(["search", "e1"], "0.006", 2), (["answer", "e1"], "0.001", 1)]
    assert [q.amount for row in rows for q in row.quantities] == ["600", "100"]
    assert await report(worker, episode_id="e2") == []
    first = await worker.ledger.ReportSpend(
        pb.ReportSpendRequest(group_by=[pb.SPEND_DIMENSION_TOOL], page_size=1)
    )
    second = await worker.ledger.ReportSpend(
        pb.ReportSpendRequest(
            group_by=[pb.SPEND_DIMENSION_TOOL], page_size=1, page_token=first.next_page_token
        )
    )
    assert [list(page.rows[0].values) for page in (first, second)] == [["search"], ["answer"]]


async def test_currencies_are_never_added_together(ledger: RunningLedger, worker: Client) -> None:
    euros = make_price("tool/eu", currency_code="EUR")
    await ledger.admin().prices.CreatePrices(prices_pb.CreatePricesRequest(specs=[euros]))
    await worker.ledger.Record(make_record("a"))
    await worker.ledger.Record(make_record("b", sku="tool/eu"))
    (row,) = await report(worker)
    assert [money.currency_code for money in row.amounts] == ["EUR", "USD"]
    assert {money.amount for money in row.amounts} == {"0.00225"}


async def test_a_reversed_call_is_in_no_sum(worker: Client) -> None:
    for key in ("a", "b"):
        await worker.ledger.Record(make_record(key))
    await worker.ledger.Reverse(pb.ReverseRequest(key="undo", sequence=1, reason="billed twice"))
    (row,) = await report(worker)
    assert (row.amounts[0], row.call_count) == (usd("0.00225"), 1)
    assert [quantity.amount for quantity in row.quantities] == ["1000", "100"]


async def test_the_journal_is_listed_page_by_page(worker: Client) -> None:
    for number in range(5):
        await worker.ledger.Record(make_record(f"k{number}", subject={"episode_id": "e1"}))
    sequences: list[int] = []
    token = ""
    while True:
        request = pb.ListEntriesRequest(page_size=2, page_token=token, episode_id="e1")
        page = await worker.ledger.ListEntries(request)
        sequences.extend(entry.sequence for entry in page.entries)
        token = page.next_page_token
        if not token:
            break
    assert sequences == [1, 2, 3, 4, 5]
    assert await entries_of(worker, episode_id="e2") == []


UNSOURCED = usage_pb2.Usage(quantities=quantities(call=1))


@pytest.mark.parametrize(
    "record",
    [
        make_record("k", usage=make_usage(call=-1)),
        make_record("k", usage=make_usage(call="many")),
        make_record("k", usage=make_usage(call="NaN")),
        make_record("k", usage=make_usage(call="1e40")),
        make_record("k", usage=make_usage(call="0.0000000000001")),
        make_record("k", usage=UNSOURCED),
        make_record("k" * 201),
        make_record("k\0"),
        make_record("k", subject={"turn": -1}),
        make_record("k", occur_time={"seconds": 253_402_300_799}),
    ],
)
async def test_a_cost_that_cannot_be_understood_is_rejected(
    worker: Client, record: pb.RecordRequest
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await worker.ledger.Record(record)
    assert rejected.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert await entries_of(worker) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"worst_case": quantities(call=1) * 2},
        {"unknown_price": 9},
        {"unknown_price": hold_pb2.UNKNOWN_PRICE_POLICY_ADMIT_AT_CEILING},
        {"time_to_live": {"seconds": -1}},
        {"ceiling": usd("-1"), "unknown_price": hold_pb2.UNKNOWN_PRICE_POLICY_ADMIT_AT_CEILING},
    ],
)
async def test_a_hold_that_cannot_be_understood_is_rejected(
    worker: Client, fields: dict[str, Any]
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await worker.ledger.Reserve(make_reserve("k", **fields))
    assert rejected.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    "fields",
    [
        {"page_token": "made-up"},
        {"page_size": -1},
        {"kinds": [0]},
        {"page_token": "eyJhZnRlciI6ICJ4In0"},
    ],
)
async def test_a_listing_that_cannot_be_understood_is_rejected(
    worker: Client, fields: dict[str, Any]
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await entries_of(worker, **fields)
    assert rejected.value.code() is grpc.StatusCode.INVALID_ARGUMENT
