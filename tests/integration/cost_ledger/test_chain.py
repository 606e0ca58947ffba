import pytest
from sqlalchemy import text

from cost_ledger.audit.verification import broken_chain
from cost_ledger.journal.store_rows import entry_from_json
from cost_ledger.models import Entry
from integration.cost_ledger.builders import make_capture, make_record, make_reserve
from integration.cost_ledger.running_ledger import Client, RunningLedger
from integration.cost_ledger.sql_access import as_owner, rows_of

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
