import pytest

from cost_ledger.budget_status.store import LedgerStatusStore
from integration.cost_ledger.audit.auditor import as_superuser, fill, roll_up, verified
from integration.cost_ledger.running_ledger import Client, RunningLedger, as_service
from podium_kit.postgres.engine import open_engine

SWAP = (
    "UPDATE entry SET sequence = 1000 WHERE sequence = 2",
    "UPDATE entry SET sequence = 2 WHERE sequence = 4",
    "UPDATE entry SET sequence = 4 WHERE sequence = 1000",
)
APPEND = """
    INSERT INTO entry SELECT (jsonb_populate_record(e, '{"sequence": 10, "key": "forged"}')).*
    FROM entry e WHERE sequence = 5
"""


async def test_an_unchanged_ledger_verifies(
    ledger: RunningLedger, worker: Client, admin: Client
) -> None:
    await admin.add_budget(limit="1")
    await fill(ledger)
    assert await verified(worker) == []


@pytest.mark.parametrize(
    ("statements", "rule", "row"),
    [
        (("UPDATE entry SET tool = 'other' WHERE sequence = 2",), "I9 chain", "entry 2"),
        (("UPDATE entry SET spend = 9, payable = -9 WHERE sequence = 2",), "I8", "entry 2"),
        (("DELETE FROM entry WHERE sequence = 3",), "I9 chain", "entry 3"),
        (("DELETE FROM entry WHERE sequence = 9",), "I9 chain", "entry 9"),
        (SWAP, "I9 chain", "entry 2"),
        ((APPEND,), "I9", "head 9"),
        (("UPDATE balance SET spend = spend + 1, payable = payable - 1",), "I2", "balance payable"),
        (("UPDATE balance SET held = 1",), "I2", "balance held"),
        (("UPDATE hold SET state = 'open' WHERE key = 'a'",), "I3", "held in USD"),
        (("UPDATE hold SET state = 'open' WHERE key = 'a'",), "I6", "hold a"),
        (("UPDATE budget_window SET posted = posted + 1",), "I3 windows", "budget cap"),
        (("DELETE FROM hold WHERE key = 'a'",), "I7", "entry 2"),
        (("UPDATE hold SET reserve_sequence = 3 WHERE key = 'a'",), "I5", "reserve a"),
        (("UPDATE hold SET reserve_sequence = 3 WHERE key = 'a'",), "I7", "entry 2"),
        (("UPDATE hold SET capture_sequence = 5 WHERE key = 'a'",), "I5", "capture a"),
        (("UPDATE idempotency SET sequence = 5 WHERE key = 'd'",), "I5", "record d"),
        (("UPDATE rollup_day SET amount = amount + 1",), "I10", "sum of"),
        (("UPDATE rollup_day SET input_fresh = input_fresh + 1",), "I10 usage", "sum of"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_row_changed_by_force_is_found(
    ledger: RunningLedger,
    worker: Client,
    admin: Client,
    statements: tuple[str, ...],
    rule: str,
    row: str,
) -> None:
    await admin.add_budget(limit="1")
    await fill(ledger)
    await roll_up(ledger)
    assert await verified(worker) == []
    await as_superuser(ledger.database_url, *statements)
    # Later steps follow from the first wrong row, so the first finding of a rule counts.
    found = {finding.rule: finding for finding in reversed(await verified(worker))}
    assert rule in found, found
    assert found[rule].row.startswith(row)


@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize(
    ("statement", "untied"),
    [
        ("SELECT", 0),
        ("UPDATE hold SET state = 'open' WHERE key = 'a'", 1),
        ("UPDATE entry SET held = 0, available = 0 WHERE sequence = 2", 1),
    ],
)
async def test_tenants_are_counted_whose_holds_and_entries_contradict_each_other(
    ledger: RunningLedger, summed: bool, statement: str, untied: int
) -> None:
    await fill(ledger)
    await as_superuser(ledger.database_url, statement)
    if summed:
        await roll_up(ledger)
    engine = open_engine(as_service(ledger.database_url))
    assert (await LedgerStatusStore(engine).status()).untied_tenants == untied
    await engine.dispose()
