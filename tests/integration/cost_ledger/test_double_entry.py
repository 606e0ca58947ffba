from decimal import Decimal

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from integration.cost_ledger.builders import (
    make_capture,
    make_record,
    make_reserve,
    make_usage,
    usd,
)
from integration.cost_ledger.running_ledger import Client, RunningLedger
from integration.cost_ledger.sql_access import as_owner, rows_of
from podium.common.v1 import usage_pb2
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import hold_pb2

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
    other = (await ledger.Record(make_record("s"))).entry
    await ledger.Reverse(pb.ReverseRequest(key="s-", sequence=other.sequence, reason="twice"))
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
