import asyncio
from collections.abc import Awaitable

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from callers import make_key_pair
from cost_ledger.models import Hold, Rejection
from cost_ledger.posting.batches import Outcome
from cost_ledger.server import MIGRATIONS
from cost_ledger.store_engine import KEYED_LOOKUPS
from embedded_servers import Database
from integration.cost_ledger.builders import make_budget, make_record, make_reserve, usd
from integration.cost_ledger.running_ledger import (
    Client,
    RunningLedger,
    as_owner,
    as_tenants,
    findings_of,
    rows_of,
)
from integration.cost_ledger.second_replica import Replica, capture, record, replica, reserve
from podium.ledger.v1 import budget_service_pb2 as budgets_pb
from podium_kit.postgres.migrations import upgrade

ANSWERS = """
    INSERT INTO idempotency (tenant, operation, key, request_hash, sequence, occur_time)
    SELECT 'acme', 'record', 'key-' || n, 'hash', n, now() FROM generate_series(1, :count) n
"""
# Like the one hold that was made by a call.
HOLDS = """
    INSERT INTO hold
    SELECT (json_populate_record(h, json_build_object('key', 'key-' || n))).*
    FROM hold h, generate_series(1, :count) n WHERE h.key = 'made'
"""
BUDGETS = """
    INSERT INTO budget (tenant, id, scope, scope_id, budget_window, rolling_length_s, time_zone,
                        currency, hard_limit, soft_limits, create_time)
    SELECT 'acme', 'cap-' || n, 'user', 'user-' || n, 'total', 0, 'UTC', 'USD', 1, '{}', now()
    FROM generate_series(1, :count) n
"""
WINDOWS = """
    INSERT INTO budget_window (tenant, budget_id, start, posted, held)
    SELECT tenant, id, create_time, 0, 0 FROM budget WHERE tenant = 'acme'
    ON CONFLICT DO NOTHING
"""
READ = """
    SELECT read_answers('{acme}', '{record}', '{key-7}'), read_holds('{acme}', '{key-7}'),
           read_statuses('[{"tenant": "acme", "scope": "user", "scope_id": "user-7"}]', now())
"""
ROWS_READ = """
    SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)::int
    FROM pg_stat_xact_user_tables WHERE relname IN ('idempotency', 'hold', 'budget_window')
"""


FOR_EVERY_CALL = """
    INSERT INTO budget (tenant, id, scope, scope_id, budget_window, rolling_length_s, time_zone,
                        currency, hard_limit, soft_limits, create_time)
    SELECT 'acme', 'all-' || n, 'tenant', '', 'total', 0, 'UTC', 'USD', 99, '{}', now()
    FROM generate_series(1, 3) n
"""
READ_EVER = """
    SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::int FROM pg_stat_user_tables
    WHERE relname IN ('ledger_head', 'hold', 'budget_window')
"""


async def fill(ledger: RunningLedger, count: int) -> None:
    async with as_owner(ledger) as connection:
        for statement in (ANSWERS, HOLDS, BUDGETS):
            await connection.execute(text(statement), {"count": count})
        await connection.execute(text(WINDOWS))


async def rows_read(connection: AsyncConnection) -> int:
    ((before,),) = await rows_of(connection, ROWS_READ)
    await rows_of(connection, READ)
    ((after,),) = await rows_of(connection, ROWS_READ)
    return int(after) - int(before)


async def test_a_connection_that_knew_an_empty_journal_reads_no_more_of_a_full_one(
    ledger: RunningLedger,
) -> None:
    async with as_tenants(ledger, "acme") as connection:
        for name, value in KEYED_LOOKUPS.items():
            await connection.execute(text(f"SET LOCAL {name} = {value}"))
        assert await rows_read(connection) == 0
        await ledger.as_().ledger.Reserve(make_reserve("made"))
        await fill(ledger, 5000)
        answer, hold, window = 1, 1, 1
        assert await rows_read(connection) == answer + hold + window


async def read_ever(ledger: RunningLedger, writer: Replica) -> int:
    async with writer.pool.acquire() as connection:
        await connection.execute("SELECT pg_stat_force_next_flush()")
        await connection.execute("SELECT")
    async with as_owner(ledger) as owner:
        ((count,),) = await rows_of(owner, READ_EVER)
    return int(count)


@pytest.mark.parametrize("calls", [1, 3])
async def test_a_connection_that_knew_an_empty_journal_writes_by_key_into_a_full_one(
    database: Database, calls: int
) -> None:
    async def pairs(name: str) -> int:
        keys = [f"{name}/{number}" for number in range(calls)]
        before = await read_ever(ledger, writer)
        await writer.apply_all(*map(reserve, keys))
        await writer.apply_all(*map(capture, keys))
        return await read_ever(ledger, writer) - before

    # Not served: what a service does beside its calls would be counted as well.
    ledger = RunningLedger(0, await database("cost_ledger"), make_key_pair())
    await upgrade(ledger.database_url, MIGRATIONS)
    async with as_owner(ledger) as owner:
        await owner.execute(text(FOR_EVERY_CALL))
    async with replica(ledger) as writer:
        await writer.apply(reserve("made"))
        await pairs("first")
        few = await pairs("second")
        await fill(ledger, 5000)
        assert await pairs("third") == few > 0


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
