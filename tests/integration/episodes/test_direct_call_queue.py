"""Taking direct calls reads few, however many wait; see test_work_queues.py."""

from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from episodes.direct_calls.call import StoredCall
from episodes.direct_calls.queued import CALL_QUEUE
from episodes.direct_calls.store import DirectCallStore
from episodes.queue.store import ACQUIRE, WorkQueue
from integration.episodes.queue_rows import queued_call
from podium_kit.money import Money

LONG_S = 60.0
FILL = text(
    """
    WITH stored AS (
        INSERT INTO direct_calls (id, tenant, subject, spec, toolset)
        SELECT gen_random_uuid(), :tenant, 'ada', '', '' FROM generate_series(1, :count)
        RETURNING id, tenant
    )
    INSERT INTO direct_call_queue (call_id, tenant) SELECT id, tenant FROM stored
    """
)


async def stored(engine: AsyncEngine, count: int) -> list[str]:
    return [await queued_call(engine) for _ in range(count)]


async def fill(engine: AsyncEngine, waiting: int) -> None:
    async with engine.begin() as connection:
        for tenant in ("acme", "globex"):
            await connection.execute(FILL, {"tenant": tenant, "count": waiting})
    async with engine.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        await connection.execute(text("ANALYZE direct_calls, direct_call_queue"))


def rows_read(plan: dict[str, Any]) -> float:
    here = 0.0
    if "Relation Name" in plan:
        found = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
        here = found * plan["Actual Loops"]
    return here + sum(rows_read(below) for below in plan.get("Plans", []))


async def taken(queue: WorkQueue[StoredCall], most: int = 10, lease_s: float = LONG_S) -> list[str]:
    return [call.id for call in await queue.acquire(most, lease_s)]


async def test_taking_reads_a_few_rows_of_each_tenant_however_many_wait(
    engine: AsyncEngine,
) -> None:
    await fill(engine, waiting=20_000)
    values = {"limit": 10, "lease_s": LONG_S, "holder": "a", "per_tenant": 10}
    async with engine.connect() as connection:
        explained = text(f"EXPLAIN (ANALYZE, FORMAT JSON) {CALL_QUEUE.statement(ACQUIRE)}")
        [plan] = (await connection.execute(explained, values)).scalar_one()
    assert rows_read(plan["Plan"]) < 1_000


async def test_a_call_is_open_until_it_is_dropped(engine: AsyncEngine) -> None:
    first, second = await stored(engine, 2)
    queue = WorkQueue(engine, CALL_QUEUE, "a")
    assert await taken(queue, most=1) == [first]
    await queue.release([first], LONG_S)
    assert await queue.size() == 2
    await queue.drop(first)
    await queue.drop(second)
    assert await queue.size() == 0


async def test_a_call_that_has_ended_is_in_no_queue(engine: AsyncEngine) -> None:
    [call_id] = await stored(engine, 1)
    store, queue = DirectCallStore(engine), WorkQueue(engine, CALL_QUEUE, "a")
    await store.ended(call_id, Money.zero("USD"))
    await store.queue(call_id)
    assert await taken(queue) == []
    assert (await store.load(call_id)).ended


async def test_a_call_that_nobody_queued_is_queued_once(engine: AsyncEngine) -> None:
    [call_id] = await stored(engine, 1)
    store, queue = DirectCallStore(engine), WorkQueue(engine, CALL_QUEUE, "a")
    assert await taken(queue) == [call_id]
    await store.queue(call_id)
    assert await taken(queue) == []
    await queue.drop(call_id)
    await store.queue(call_id)
    assert await taken(queue) == [call_id]
