import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TypeVar

R = TypeVar("R")


class FairSemaphore:
    """A semaphore whose slots go to the waiting tenant that holds the fewest.

    A tenant may hold `per_tenant` slots at most. A tenant's waiters are served in order.
    """

    def __init__(self, count: int, per_tenant: int | None = None) -> None:
        self._free = self._count = count
        self._per_tenant = count if per_tenant is None else per_tenant
        self._held: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def is_exhausted(self) -> bool:
        return self._free <= 0

    @property
    def is_idle(self) -> bool:
        return not self._held

    def resize(self, count: int, per_tenant: int) -> None:
        """Changes the number of slots; slots beyond it are held until they are released."""
        self._free += count - self._count
        self._count, self._per_tenant = count, per_tenant
        for _ in range(self._free):
            self._grant_next()

    @asynccontextmanager
    async def slot(self, tenant: str) -> AsyncIterator[None]:
        await self.acquire(tenant)
        try:
            yield
        finally:
            self.release(tenant)

    async def acquire(self, tenant: str) -> None:
        if self._free > 0 and self._held[tenant] < self._per_tenant:
            self._grant(tenant)
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(granted)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                # The slot was granted in the moment of the cancellation.
                self.release(tenant)
            else:
                self._remove(tenant, granted)
            raise

    def release(self, tenant: str) -> None:
        self._free += 1
        self._held[tenant] -= 1
        # Counts of 0 would be kept for every tenant that ever called.
        self._held = +self._held
        if self._free > 0:
            self._grant_next()

    def _grant(self, tenant: str) -> None:
        self._free -= 1
        self._held[tenant] += 1

    def _grant_next(self) -> None:
        waiting = [each for each in self._waiting if self._held[each] < self._per_tenant]
        # Among tenants that hold equally few, `sorted` keeps the one that has waited longest first.
        for tenant in sorted(waiting, key=lambda each: self._held[each]):
            # A cancelled waiter removes itself in a moment.
            for granted in self._waiting[tenant]:
                if not granted.cancelled():
                    self._remove(tenant, granted)
                    self._grant(tenant)
                    granted.set_result(None)
                    return

    def _remove(self, tenant: str, granted: "asyncio.Future[None]") -> None:
        waiting = self._waiting.pop(tenant)
        waiting.remove(granted)
        if waiting:
            # A tenant that was served goes behind the others.
            self._waiting[tenant] = waiting


class FairThread:
    """Short computations of tenants, one after the other, while the event loop serves others.

    They hold the interpreter, so that more threads would not end sooner. Each must be bounded.
    """

    def __init__(self) -> None:
        self._semaphore = FairSemaphore(1)

    async def run(self, tenant: str, work: Callable[[], R]) -> R:
        await self._semaphore.acquire(tenant)
        running = asyncio.ensure_future(asyncio.to_thread(work))

        def end(ended: "asyncio.Future[R]") -> None:
            self._semaphore.release(tenant)
            if not ended.cancelled():
                # Marks it retrieved, also where its caller gave up.
                ended.exception()

        # A thread cannot be stopped: the next one begins when it ends, not when its caller leaves.
        running.add_done_callback(end)
        return await asyncio.shield(running)


T = TypeVar("T")


async def in_parallel(jobs: Iterable[Callable[[], Awaitable[T]]], at_once: int) -> list[T]:
    """The results in the jobs' order, `at_once` of them running. Raises what the first raised."""
    gate = asyncio.Semaphore(at_once)

    async def one(job: Callable[[], Awaitable[T]]) -> T:
        async with gate:
            return await job()

    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(one(job)) for job in jobs]
    except ExceptionGroup as failed:
        # The first failure cancelled the others: raise that cause, not the group.
        raise failed.exceptions[0] from None
    return [each.result() for each in running]
