import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine

from cost_ledger.audit.verification import broken_chain
from cost_ledger.journal.store_rows import entry_from_json
from cost_ledger.models import Entry
from embedded_servers import Database
from integration.cost_ledger.audit.auditor import roll_up
from integration.cost_ledger.builders import (
    GPT5,
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
    as_owner,
    rows_of,
    running_ledger,
)
from podium.common.v1 import usage_pb2
from podium.ledger.v1 import budget_service_pb2 as budgets_pb
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import hold_pb2
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium_kit.rpc.identity import Scope


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
    assert len(await worker.entries()) == 1


async def test_an_overdue_hold_becomes_a_provisional_cost_and_the_actual_one_replaces_it(
    database: Database, tmp_path: Path
) -> None:
    async with running_ledger(
        await database("cost_ledger"), tmp_path, sweep_interval_s=0.05
    ) as ledger:
        await ledger.admin().prices.CreatePrices(
            prices_pb.CreatePricesRequest(specs=[make_price()])
        )
        await ledger.as_("acme", Scope.TENANT_ADMIN).add_budget()
        worker = ledger.as_("acme")
        for key in ("late", "never-made"):
            await worker.ledger.Reserve(
                make_reserve(key, time_to_live={"nanos": 1000}, dispatched=True)
            )
        kinds = [hold_pb2.ENTRY_KIND_CAPTURE]
        while len(await worker.entries(kinds=kinds)) < 2:
            await asyncio.sleep(0.02)
        provisional = (await worker.entries(kinds=kinds))[0]
        assert provisional.amount == usd("0.01125")
        assert provisional.usage.source == usage_pb2.USAGE_SOURCE_ESTIMATED
        assert (await worker.ledger.Capture(make_capture("late"))).entry.amount == usd("0.00225")
        released = await worker.ledger.Release(pb.ReleaseRequest(key="never-made"))
        assert released.hold.state == hold_pb2.HOLD_STATE_RELEASED
        settled = await worker.entries(kinds=[hold_pb2.ENTRY_KIND_SETTLE])
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
    assert await worker.entries(episode_id="e2") == []


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
    assert await worker.entries() == []


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
        await worker.entries(**fields)
    assert rejected.value.code() is grpc.StatusCode.INVALID_ARGUMENT


ROWS = "SELECT row_to_json(e)::text FROM entry e WHERE tenant = 'acme' ORDER BY sequence"


async def journal(ledger: RunningLedger) -> list[Entry]:
    async with as_owner(ledger) as connection:
        rows = await rows_of(connection, ROWS)
    return [entry_from_json(row) for (row,) in rows]


async def post_some(worker: Client) -> None:
    for key in ("a", "b"):
        await worker.ledger.Reserve(make_reserve(key))
        await worker.ledger.Capture(make_capture(key))
    await worker.ledger.Record(make_record("c", subject={"team": 'Zürich \\ "x" 東京'}))


async def test_the_chain_is_recomputed_from_the_rows_and_ends_at_the_head(
    ledger: RunningLedger, worker: Client
) -> None:
    await post_some(worker)
    entries = await journal(ledger)
    assert [entry.sequence for entry in entries] == [1, 2, 3, 4, 5]
    assert broken_chain(None, 0, entries, 5) == []
    assert broken_chain(entries[1], 2, entries[2:], 5) == []
    async with as_owner(ledger) as connection:
        heads = await rows_of(connection, "SELECT sequence, hash FROM ledger_head")
    assert heads == [(5, entries[-1].hash)]


@pytest.mark.parametrize(
    ("tampering", "broken"),
    [
        ("UPDATE entry SET spend = 1, payable = -1 WHERE sequence = 2", 2),
        ("UPDATE entry SET occur_time = occur_time + interval '1 us' WHERE sequence = 3", 3),
        ("UPDATE entry SET user_id = 'eve' WHERE sequence = 5", 5),
        ('UPDATE entry SET windows = \'[["x", "2026-01-01T00:00:00Z", "USD"]]\'', 1),
        ("DELETE FROM entry WHERE sequence = 3", 3),
        ("UPDATE entry SET sequence = 7 - sequence WHERE sequence IN (3, 4)", 3),
        ("UPDATE entry SET hash = sha256('x') WHERE sequence = 4", 4),
        (
            "CREATE TEMP TABLE t ON COMMIT DROP AS SELECT * FROM entry WHERE sequence = 5;"
            "UPDATE t SET sequence = 6; INSERT INTO entry SELECT * FROM t",
            6,
        ),
    ],
    ids=["amount", "time", "user", "windows", "dropped", "swapped", "hash", "appended"],
)
async def test_tampering_breaks_the_chain_where_it_happened(
    ledger: RunningLedger, worker: Client, tampering: str, broken: int
) -> None:
    await post_some(worker)
    async with as_owner(ledger) as connection:
        await connection.execute(text("ALTER TABLE entry DISABLE TRIGGER immutable"))
        for statement in tampering.split(";"):
            await connection.execute(text(statement))
    [found] = broken_chain(None, 0, await journal(ledger), 5)
    assert found.row == f"entry {broken}"


UNKNOWN = {"sku": "", "unknown_price": hold_pb2.UNKNOWN_PRICE_POLICY_ADMIT}
AT_CEILING = {
    "sku": "",
    "unknown_price": hold_pb2.UNKNOWN_PRICE_POLICY_ADMIT_AT_CEILING,
    "ceiling": usd("0.5"),
}

# Per entry and unit, over all of the journal: what must be empty.
UNBALANCED = """
    SELECT tenant, sequence, unit FROM posting GROUP BY tenant, sequence, unit
    HAVING sum(amount) <> 0
"""
DRIFTED = """
    SELECT coalesce(b.tenant, p.tenant), coalesce(b.unit, p.unit), account, b.amount, p.amount
    FROM (
        SELECT tenant, unit, account, amount FROM balance CROSS JOIN LATERAL (VALUES
            ('held', held), ('available', available), ('spend', spend),
            ('provisional', provisional), ('suspense', suspense), ('payable', payable)
        ) AS v(account, amount) WHERE amount <> 0
    ) b
    FULL JOIN (
        SELECT tenant, unit, account, sum(amount) AS amount FROM posting
        GROUP BY tenant, unit, account HAVING sum(amount) <> 0
    ) p USING (tenant, unit, account)
    WHERE b.amount IS DISTINCT FROM p.amount
"""


async def post_every_kind(worker: Client, admin: Client) -> None:
    ledger = worker.ledger
    for key, fields in (("a", {}), ("b", UNKNOWN), ("c", AT_CEILING), ("d", {"dispatched": True})):
        await ledger.Reserve(make_reserve(key, **fields))
    await ledger.MarkDispatched(pb.MarkDispatchedRequest(key="a"))
    estimate = make_usage(output_text=7000)
    estimate.source = usage_pb2.USAGE_SOURCE_ESTIMATED
    captured = (await ledger.Capture(make_capture("a", estimate))).entry
    await ledger.Capture(make_capture("b"))
    await ledger.Capture(make_capture("c"))
    await ledger.Release(pb.ReleaseRequest(key="d"))
    settled = (
        await admin.ledger.Settle(pb.SettleRequest(key="a", usage=make_usage(output_text=100)))
    ).entry
    assert (captured.amount, settled.amount) == (usd("0.07"), usd("0.001"))
    recorded = (await ledger.Record(make_record("r"))).entry
    await admin.ledger.Adjust(
        pb.AdjustRequest(key="r+", sequence=recorded.sequence, change=usd("0.5"), reason="invoice")
    )
    await admin.ledger.ClosePeriod(
        pb.ClosePeriodRequest(key="y", end_time=Timestamp(seconds=1_700_000))
    )


async def test_the_postings_of_every_kind_of_entry_sum_to_zero_per_unit(
    ledger: RunningLedger, worker: Client, admin: Client
) -> None:
    await post_every_kind(worker, admin)
    entries = (await worker.ledger.ListEntries(pb.ListEntriesRequest())).entries
    kinds = {entry.kind for entry in entries}
    assert kinds == set(hold_pb2.EntryKind.values()) - {hold_pb2.ENTRY_KIND_UNSPECIFIED}
    for entry in entries:
        for unit in {posting.unit for posting in entry.postings}:
            amounts = [Decimal(each.amount) for each in entry.postings if each.unit == unit]
            assert len(amounts) > 1
            assert sum(amounts) == 0
    await roll_up(ledger)
    async with as_owner(ledger) as connection:
        assert await rows_of(connection, UNBALANCED) == []
        assert await rows_of(connection, DRIFTED) == []
        totals = await rows_of(
            connection, "SELECT unit, held, spend, suspense, payable FROM balance ORDER BY unit"
        )
    # 0.001 settled, 0.00225 recorded and 0.5 more of it; two calls of unknown price.
    spent = Decimal("0.50325")
    assert totals == [("USD", 0, spent, 0, -spent), ("XXX", 0, 0, 2, -2)]


@pytest.mark.parametrize(
    ("change", "constraint"),
    [
        ("payable = payable - 1", "cost_is_balanced"),
        ("held = held + 1, hold_unit = 'USD'", "held_is_balanced"),
        ("unit = ''", "units_are_given"),
        ("hash = 'short'", "hash"),
    ],
)
async def test_the_database_rejects_an_entry_that_does_not_balance(
    ledger: RunningLedger, worker: Client, change: str, constraint: str
) -> None:
    await worker.ledger.Record(make_record("k"))
    with pytest.raises(DBAPIError, match=constraint):
        async with as_owner(ledger) as connection:
            await connection.execute(text("ALTER TABLE entry DISABLE TRIGGER immutable"))
            await connection.execute(text(f"UPDATE entry SET {change}"))
