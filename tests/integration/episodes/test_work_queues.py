import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from episodes.direct_calls.queued import CALL_QUEUE
from episodes.queue.store import EPISODE_QUEUE, EpisodeQueue, QueueTable, WorkQueue
from episodes.store import EpisodeStore
from episodes.workflows.payloads import TurnResult
from integration.episodes.queue_rows import new_episode, queued_call, queued_episode

LONG_S = 60.0


@dataclass(frozen=True)
class Kind:
    table: QueueTable[Any]
    add: Callable[[AsyncEngine, str], Awaitable[str]]


KINDS = [Kind(CALL_QUEUE, queued_call), Kind(EPISODE_QUEUE, queued_episode)]


@dataclass(frozen=True)
class Queues:
    engine: AsyncEngine
    kind: Kind

    def of(self, holder: str) -> WorkQueue[Any]:
        return WorkQueue(self.engine, self.kind.table, holder)

    async def add(self, count: int, tenant: str = "acme") -> list[str]:
        return [await self.kind.add(self.engine, tenant) for _ in range(count)]


@pytest.fixture(params=KINDS, ids=[kind.table.kind for kind in KINDS])
def queues(engine: AsyncEngine, request: pytest.FixtureRequest) -> Queues:
    return Queues(engine, request.param)


async def taken(queue: WorkQueue[Any], most: int = 10, lease_s: float = LONG_S) -> list[str]:
    return [one.id for one in await queue.acquire(most, lease_s)]


async def test_workers_that_take_at_once_share_what_is_there(queues: Queues) -> None:
    ids = await queues.add(12)
    workers = [queues.of(name) for name in ("a", "b", "c")]
    shares = await asyncio.gather(*(taken(worker, most=4) for worker in workers))
    again = await asyncio.gather(*(taken(worker, most=12) for worker in workers))
    assert sorted(id for share in [*shares, *again] for id in share) == sorted(ids)


async def test_the_oldest_is_taken_first(queues: Queues) -> None:
    first, second = await queues.add(2)
    queue = queues.of("a")
    assert await taken(queue, most=1) == [first]
    assert await taken(queue, most=1) == [second]


async def test_a_tenants_many_rows_leave_places_to_another_tenants_few(queues: Queues) -> None:
    many = await queues.add(40, "many")
    first, *others = await queues.add(3, "few")
    queue, other = queues.of("a"), queues.of("b")
    assert set(await taken(queue, most=2)) == {many[0], first}
    # The tenant with the fewest that are worked on is next, on another worker, too.
    assert set(await taken(other, most=4)) == {*many[1:3], *others}
    await queue.drop(first)
    [newest] = await queues.add(1, "few")
    assert await taken(other, most=1) == [newest]
    # What is there alone gets all places.
    assert await taken(queue, most=37) == many[3:]


async def test_a_tenant_has_so_many_rows_of_a_worker_at_most(queues: Queues) -> None:
    many, few = await queues.add(5, "many"), await queues.add(1, "few")
    queue, other = queues.of("a"), queues.of("b")
    leased = [one.id for one in await queue.acquire(10, LONG_S, per_tenant=2)]
    assert set(leased) == {*many[:2], *few}
    assert await queue.acquire(10, LONG_S, per_tenant=2) == []
    await queue.drop(many[0])
    assert [one.id for one in await queue.acquire(10, LONG_S, per_tenant=2)] == [many[2]]
    assert await taken(other) == many[3:]


async def test_it_is_taken_again_when_its_lease_ends(queues: Queues) -> None:
    [id] = await queues.add(1)
    dead, alive = queues.of("dead"), queues.of("alive")
    assert await taken(dead, lease_s=0.0) == [id]
    [one] = await alive.acquire(10, LONG_S)
    assert (one.id, one.attempts) == (id, 2)
    # Whoever had it before hears that it is not theirs, and gives nothing back.
    assert await dead.renew([id], LONG_S) == {}
    await dead.release([id], 0.0)
    assert await alive.renew([id], LONG_S) == {id: False}
    assert await taken(dead) == []


async def test_what_is_given_back_is_anybodys_after_the_pause(queues: Queues) -> None:
    now, later = await queues.add(2)
    queue, other = queues.of("a"), queues.of("b")
    await taken(queue)
    assert await other.backlog_age_s() == 0
    await queue.release([now], 0.0)
    await queue.release([later], LONG_S)
    assert await other.backlog_age_s() > 0
    assert await taken(other) == [now]


async def test_a_cancel_reaches_who_has_an_episode_and_ends_a_pause(engine: AsyncEngine) -> None:
    held, pausing = await queued_episode(engine), await queued_episode(engine)
    queue, others = WorkQueue(engine, EPISODE_QUEUE, "a"), EpisodeQueue(engine)
    await taken(queue)
    await queue.release([pausing], LONG_S)
    assert await others.cancel(held)
    assert await others.cancel(pausing)
    assert await queue.renew([held], LONG_S) == {held: True}
    [again] = await queue.acquire(10, LONG_S)
    assert again.id == pausing
    assert again.cancelled.is_set()
    # One that has a workflow, or has ended, is not in the queue.
    await others.drop(held)
    assert not await others.cancel(held)


async def test_only_what_is_not_queued_is_a_workflows(engine: AsyncEngine) -> None:
    """The sweep and the reconciler would start or end what a worker is at."""
    store, others = EpisodeStore(engine), EpisodeQueue(engine)
    queued, alone = new_episode(), new_episode()
    await store.insert(queued, queued=True)
    await store.insert(alone)
    for left in [await store.unfinished("", 10)]:
        assert [one.new.episode_id for one in left] == [alone.episode_id]
    assert await others.remove(queued.episode_id)
    assert len(await store.unfinished("", 10)) == 2


async def test_an_episode_that_is_stored_again_is_queued_once(engine: AsyncEngine) -> None:
    store, queue, new = EpisodeStore(engine), WorkQueue(engine, EPISODE_QUEUE, "a"), new_episode()
    for _ in range(2):
        await store.insert(new, queued=True)
    assert await taken(queue) == [new.episode_id]
    await queue.drop(new.episode_id)
    await store.insert(new, queued=True)
    assert await taken(queue) == []


async def test_the_first_who_hands_over_says_how_an_episode_ends(engine: AsyncEngine) -> None:
    episode_id, others = await queued_episode(engine), EpisodeQueue(engine)
    [one] = await WorkQueue(engine, EPISODE_QUEUE, "dead").acquire(10, 0.0)
    assert not one.item.handed_over
    ending = TurnResult(stop="answered", turn=3)
    for given in (ending, None, TurnResult(stop="failed")):
        marked = await others.mark(episode_id, given)
        assert marked is not None
        assert marked.ending == ending
    # Whoever takes it next takes no turn.
    [one] = await WorkQueue(engine, EPISODE_QUEUE, "alive").acquire(10, LONG_S)
    assert one.item.handed_over
    # A cancel that comes before it leaves is not lost.
    await others.cancel(episode_id)
    assert not await others.remove(episode_id)
    await others.drop(episode_id)
    assert await others.remove(episode_id)
    assert await others.mark(episode_id, None) is None
