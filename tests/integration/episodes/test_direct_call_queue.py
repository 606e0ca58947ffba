"""A direct call is one worker's at a time, and another's when that one is gone."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest_asyncio
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from embedded_servers import Database
from episodes.direct_calls.models import StoredCall
from episodes.direct_calls.queued import CALL_QUEUE
from episodes.direct_calls.store import DirectCallStore
from episodes.leases.store_queue import WorkQueue
from episodes.server import MIGRATIONS
from integration.episodes.platform_under_test import new_id
from podium_kit.money import Money
from podium_kit.postgres.migrations import upgrade

LONG_S = 60.0


@pytest_asyncio.fixture
async def engine(database: Database) -> AsyncIterator[AsyncEngine]:
    url = await database("episodes")
    await upgrade(url, MIGRATIONS)
    engine = create_async_engine(url)
    yield engine
    await engine.dispose()


async def stored(engine: AsyncEngine, count: int) -> list[str]:
    """Ids of so many new calls, oldest first."""
    ids = [new_id() for _ in range(count)]
    for call_id in ids:
        call = StoredCall(call_id, "acme", "ada", b"spec", b"toolset", datetime.now(UTC))
        await DirectCallStore(engine).insert(call)
    return ids


async def taken(queue: WorkQueue[StoredCall], most: int = 10, lease_s: float = LONG_S) -> list[str]:
    return [call.id for call in await queue.take(most, lease_s)]


async def test_workers_that_take_at_once_share_the_calls(engine: AsyncEngine) -> None:
    ids = await stored(engine, 12)
    queues = [WorkQueue(engine, CALL_QUEUE, name) for name in ("a", "b", "c")]
    shares = await asyncio.gather(*(taken(queue, most=4) for queue in queues))
    again = await asyncio.gather(*(taken(queue, most=12) for queue in queues))
    assert sorted(id for share in [*shares, *again] for id in share) == sorted(ids)


async def test_the_oldest_call_is_taken_first(engine: AsyncEngine) -> None:
    first, second = await stored(engine, 2)
    queue = WorkQueue(engine, CALL_QUEUE, "a")
    assert await taken(queue, most=1) == [first]
    assert await taken(queue, most=1) == [second]


async def test_a_call_is_taken_again_when_its_lease_ends(engine: AsyncEngine) -> None:
    [call_id] = await stored(engine, 1)
    dead, alive = WorkQueue(engine, CALL_QUEUE, "dead"), WorkQueue(engine, CALL_QUEUE, "alive")
    assert await taken(dead, lease_s=0.0) == [call_id]
    [call] = await alive.take(10, LONG_S)
    assert (call.id, call.attempts) == (call_id, 2)
    # Whoever had it before hears that it is not theirs, and gives nothing back.
    assert await dead.keep([call_id], LONG_S) == {}
    await dead.give_back([call_id], 0.0)
    assert await alive.keep([call_id], LONG_S) == {call_id: False}
    assert await taken(dead) == []


async def test_what_is_given_back_is_anybodys_after_the_pause(engine: AsyncEngine) -> None:
    now, later = await stored(engine, 2)
    queue, other = WorkQueue(engine, CALL_QUEUE, "a"), WorkQueue(engine, CALL_QUEUE, "b")
    await taken(queue)
    assert await other.waiting_s() == 0
    await queue.give_back([now], 0.0)
    await queue.give_back([later], LONG_S)
    assert await other.waiting_s() > 0
    assert await taken(other) == [now]


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
