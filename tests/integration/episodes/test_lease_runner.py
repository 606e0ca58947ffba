import asyncio
from dataclasses import dataclass, field

from sqlalchemy.ext.asyncio import AsyncEngine

from episodes.queue.lease_worker import PER_TENANT_MAX, LeaseWorker
from episodes.queue.store import EPISODE_QUEUE, LeasedRow, QueuedEpisode, WorkQueue
from integration.episodes.queue_rows import queued_episode

Rows = list[LeasedRow[QueuedEpisode]]


@dataclass
class Endless:
    begun: list[str] = field(default_factory=list)

    async def do(self, taken: LeasedRow[QueuedEpisode]) -> None:
        self.begun.append(taken.id)
        await asyncio.Event().wait()

    async def fail(self, taken: LeasedRow[QueuedEpisode], message: str) -> None:
        raise AssertionError(message)

    def max_age_s(self, taken: LeasedRow[QueuedEpisode]) -> float:
        return taken.item.time_limit_s


class SlowQueue(WorkQueue[QueuedEpisode]):
    def __init__(self, engine: AsyncEngine) -> None:
        super().__init__(engine, EPISODE_QUEUE, "slow")
        self.taken, self.gate = asyncio.Event(), asyncio.Event()

    async def acquire(self, most: int, lease_s: float, per_tenant: int = 2**31) -> Rows:
        rows = await super().acquire(most, lease_s, per_tenant)
        self.taken.set()
        await self.gate.wait()
        return rows


async def test_what_is_being_taken_while_a_worker_ends_is_left_to_others(
    engine: AsyncEngine,
) -> None:
    queue, work = SlowQueue(engine), Endless()
    runner, id = LeaseWorker(queue, work, 10), await queued_episode(engine)
    runner.notify_all()
    taking = asyncio.create_task(runner.acquire())
    await queue.taken.wait()
    runner.drain(0.0)
    closing = asyncio.create_task(runner.close())
    asyncio.get_running_loop().call_later(0.2, queue.gate.set)
    await closing
    # As the worker does once all is closed.
    taking.cancel()
    [again] = await WorkQueue(engine, EPISODE_QUEUE, "other").acquire(10, 60.0)
    assert again.id == id


async def test_a_tenant_with_neighbours_has_a_share_of_a_worker_and_alone_all_of_it(
    engine: AsyncEngine,
) -> None:
    queue, work = WorkQueue(engine, EPISODE_QUEUE, "a"), Endless()
    runner = LeaseWorker(queue, work, PER_TENANT_MAX + 20)
    for _ in range(PER_TENANT_MAX + 5):
        await queued_episode(engine, "flood")

    async def lease() -> None:
        runner.notify_all()
        await runner.acquire()

    await lease()
    assert len(runner._running) == PER_TENANT_MAX + 5
    # A neighbour counts from its first lease on.
    await queued_episode(engine, "quiet")
    await lease()
    waiting = await queued_episode(engine, "flood")
    second = await queued_episode(engine, "quiet")
    await lease()
    assert second in runner._running
    assert len(runner._running) == PER_TENANT_MAX + 7
    [other] = await WorkQueue(engine, EPISODE_QUEUE, "other").acquire(10, 60.0)
    assert other.id == waiting
    await runner.close()


async def test_a_worker_of_another_version_leases_nothing(engine: AsyncEngine) -> None:
    versions = {"current": False}
    runner = LeaseWorker(
        WorkQueue(engine, EPISODE_QUEUE, "a"), Endless(), 10, lambda: versions["current"]
    )
    id = await queued_episode(engine)
    runner.notify_all()
    await runner.acquire()
    assert not runner._running
    versions["current"] = True
    runner.notify_all()
    await runner.acquire()
    assert set(runner._running) == {id}
    await runner.close()
