from datetime import timedelta

from sqlalchemy import text

from integration.cost_ledger.builders import make_budget, make_capture, make_reserve
from integration.cost_ledger.running_ledger import Client, RunningLedger
from integration.cost_ledger.sql_access import as_owner, set_clock
from integration.cost_ledger.verified import findings_of
from podium.ledger.v1 import budget_service_pb2 as pb

FORGE = text("ALTER TABLE budget_version DISABLE TRIGGER immutable")
LOWER = text("UPDATE budget_version SET hard_limit = 0.03")


async def open_rolling(admin: Client, limit: str) -> None:
    budget = make_budget(
        "cap",
        limit,
        window=pb.BUDGET_WINDOW_ROLLING,
        rolling_length=timedelta(hours=1),
    )
    await admin.budgets.CreateBudget(pb.CreateBudgetRequest(budget=budget))


async def test_holds_of_the_hour_before_count_and_older_ones_do_not(
    ledger: RunningLedger, worker: Client, admin: Client
) -> None:
    """$0.0225 fits twice an hour for ever, though three hours hold more than the limit."""
    await open_rolling(admin, "0.0225")
    for hour in range(3):
        await set_clock(ledger, f"{62 * hour} minutes")
        for number in range(2):
            key = f"k{hour}{number}"
            assert (await worker.ledger.Reserve(make_reserve(key))).HasField("hold")
        assert (await worker.ledger.Reserve(make_reserve(f"more{hour}"))).HasField("rejection")
    # A late capture counts in the bucket of its hold, which the last hour has left behind.
    await worker.ledger.Capture(make_capture("k00"))
    assert not await findings_of(worker)


async def test_a_hold_that_passed_the_limit_of_its_hour_is_found(
    ledger: RunningLedger, worker: Client, admin: Client
) -> None:
    """Three holds within an hour under a limit for four, which is lowered afterwards."""
    await open_rolling(admin, "0.045")
    for minute, key in ((0, "k0"), (30, "k1"), (59, "k2"), (200, "k3")):
        await set_clock(ledger, f"{minute} minutes")
        await worker.ledger.Reserve(make_reserve(key))
    assert not await findings_of(worker)
    async with as_owner(ledger) as connection:
        await connection.execute(FORGE)
        await connection.execute(LOWER)
    (found,) = await findings_of(worker)
    assert (found.rule, found.row) == ("I4", "entry 3")
    assert "0.03375" in found.problem
