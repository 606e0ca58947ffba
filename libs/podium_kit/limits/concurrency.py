"""Fair limits on concurrency between tenants, and bounded parallel work."""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TypeVar

R = TypeVar("R")


class Places:
    """So many calls at once; a place that becomes free goes to the tenant that has the fewest.

    One tenant alone may have `per_tenant` of them, or all. Those of a tenant wait in their order.
    """

    def __init__(self, count: int, per_tenant: int | None = None) -> None:
        self._free = self._count = count
        self._per_tenant = count if per_tenant is None else per_tenant
        self._taken: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def all_taken(self) -> bool:
        return self._free <= 0

    def resize(self, count: int, per_tenant: int) -> None:
        """Has another number of places from now on; what is held is held until it is left."""
        self._free += count - self._count
        self._count, self._per_tenant = count, per_tenant
        for _ in range(self._free):
            self._give()

    @property
    def is_empty(self) -> bool:
        """True if nobody has a place, so that nobody waits either."""
        return not self._taken

    @asynccontextmanager
    async def place(self, tenant: str) -> AsyncIterator[None]:
        """Waits for a place and holds it."""
        await self.enter(tenant)
        try:
            yield
        finally:
            self.leave(tenant)

    async def enter(self, tenant: str) -> None:
        """Waits for a place, which is held until `leave`."""
        if self._free > 0 and self._taken[tenant] < self._per_tenant:
            self._take(tenant)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # It was given a place in the moment in which it was cancelled.
                self.leave(tenant)
            else:
                self._forget(tenant, turn)
            raise

    def _take(self, tenant: str) -> None:
        self._free -= 1
        self._taken[tenant] += 1

    def leave(self, tenant: str) -> None:
        self._free += 1
        self._taken[tenant] -= 1
        # Counts of 0 would be kept for every tenant that ever called.
        self._taken = +self._taken
        if self._free > 0:
            self._give()

    def _give(self) -> None:
        """A free place to the next that waits."""
        waiting = [each for each in self._waiting if self._taken[each] < self._per_tenant]
        # Of several with as few, the one that has waited longest: `sorted` keeps their order.
        for following in sorted(waiting, key=lambda each: self._taken[each]):
            # One that was cancelled leaves by itself, in a moment.
            for turn in self._waiting[following]:
                if not turn.cancelled():
                    self._forget(following, turn)
                    self._take(following)
                    turn.set_result(None)
                    return

    def _forget(self, tenant: str, turn: "asyncio.Future[None]") -> None:
        waiting = self._waiting.pop(tenant)
        waiting.remove(turn)
        if waiting:
            # Whoever was served goes behind the others.
            self._waiting[tenant] = waiting


class FairThread:
    """Short computations of tenants, one after the other, while the event loop serves others.

    They hold the interpreter, so that more threads would not end sooner. Each must be bounded.
    """

    def __init__(self) -> None:
        self._places = Places(1)

    async def run(self, tenant: str, work: Callable[[], R]) -> R:
        """Returns the result of the work, or raises its error."""
        await self._places.enter(tenant)
        running = asyncio.ensure_future(asyncio.to_thread(work))

        def end(ended: "asyncio.Future[R]") -> None:
            self._places.leave(tenant)
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
