"""Works on what this worker has taken from a queue.

A row is one worker's for the length of a lease, which is renewed while it is worked on. A worker
that dies leaves its rows to whoever looks next; each goes on from what is stored.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from cachetools import TTLCache

from episodes.errors import FAULTS_MAX, TRANSIENT, faults_of
from episodes.queue.store import QueueTable, Taken, WorkQueue
from podium_kit.rpc.errors import DomainError, InternalError

log = logging.getLogger(__name__)

T = TypeVar("T")

# With the interval of looking this is how long a dead worker's rows stand still, at most.
LEASE_S = 4.0
KEEP_INTERVAL_S = 1.5
LOOK_INTERVAL_S = 1.0
TAKEN_AT_ONCE = 100
# The most rows of one tenant at once while another had any in the last NEIGHBOUR_S: all rows share
# the worker's processor, so a flood of one tenant would delay every turn of the others.
PER_TENANT_MAX, NEIGHBOUR_S, NEIGHBOURS_KNOWN = 32, 60.0, 1000
RETRY_FIRST_S, RETRY_FACTOR, RETRY_MAX_S = 0.2, 1.5, 3.0
# The process is short of memory, files or sockets, and may not be for long.
SHORTAGES = (MemoryError, OSError)
FAULT = "a fault of the platform, whose log says which; what it has cost is not known"


class Work(Protocol[T]):
    """What is done with what was taken."""

    async def do(self, taken: Taken[T]) -> None:
        """Goes on from what is stored. What it raises is tried again where that may help."""

    async def fail(self, taken: Taken[T], message: str) -> None:
        """Ends what cannot be done."""

    def patience_s(self, taken: Taken[T]) -> float:
        """The age up to which a part of the platform that is away is waited for."""


class LeaseRunner(Generic[T]):
    """Works on `most` rows at once; `take` and `keep` are background tasks.

    While `is_current` is False it takes no more.
    """

    def __init__(
        self,
        queue: WorkQueue[T],
        work: Work[T],
        most: int,
        is_current: Callable[[], bool] = lambda: True,
    ) -> None:
        self._queue = queue
        self._work = work
        self._most = most
        self._is_current = is_current
        self._running: dict[str, tuple[Taken[T], asyncio.Task[None]]] = {}
        self._of_tenant: Counter[str] = Counter()
        self._tenants: TTLCache[str, None] = TTLCache(NEIGHBOURS_KNOWN, NEIGHBOUR_S)
        self._news = asyncio.Event()
        self._taking = asyncio.Lock()
        self._changed = False
        self._drained_at: float | None = None

    @property
    def table(self) -> QueueTable[T]:
        return self._queue.table

    def hear(self, id: str) -> None:
        """A row is new, or was changed by a server or another worker."""
        self._changed |= id in self._running
        self._news.set()

    def look(self) -> None:
        """Something may be there to take, or has changed."""
        self._changed |= bool(self._running)
        self._news.set()

    async def take(self) -> None:
        """Waits for news, and takes what there is room for."""
        try:
            async with asyncio.timeout(LOOK_INTERVAL_S):
                await self._news.wait()
        except TimeoutError:
            pass
        self._news.clear()
        if self._changed:
            self._changed = False
            await self.keep()
        async with self._taking:
            room = min(self._most - len(self._running), TAKEN_AT_ONCE)
            if room <= 0 or self._drained_at is not None or not self._is_current():
                return
            rows = await self._queue.take(room, LEASE_S, self._per_tenant)
            for taken in rows:
                self._start(taken)
        if len(rows) == room:
            self._news.set()

    @property
    def _per_tenant(self) -> int:
        return min(self._most, PER_TENANT_MAX) if len(self._tenants) > 1 else self._most

    async def keep(self) -> None:
        """Renews what is worked on; what another worker has by now is left to it."""
        if not (kept := dict(self._running)):
            return
        ours = await self._queue.keep(list(kept), LEASE_S)
        for id, (taken, task) in kept.items():
            if id not in ours:
                # One that has just ended is in no queue either.
                task.cancel()
            elif ours[id]:
                taken.cancelled.set()

    def drain(self, within_s: float) -> None:
        """Takes no more; what is worked on gets so long."""
        self._drained_at = asyncio.get_running_loop().time() + within_s

    async def close(self) -> None:
        """Waits for what is worked on as `drain` said, and gives back the rest."""
        # What is being taken at this moment is this worker's, too.
        with suppress(TimeoutError):
            async with asyncio.timeout(LEASE_S), self._taking:
                pass
        loop = asyncio.get_running_loop()
        left_s = max(0.0, (self._drained_at or loop.time()) - loop.time())
        if self._running:
            await asyncio.wait([task for _, task in self._running.values()], timeout=left_s)
        if left := dict(self._running):
            for _, task in left.values():
                task.cancel()
            await asyncio.wait([task for _, task in left.values()])
            await self._give_back(list(left), 0.0)

    def _start(self, taken: Taken[T]) -> None:
        # Its lease ended here, and it was taken again before that was noticed.
        if before := self._running.pop(taken.id, None):
            before[1].cancel()
        task = asyncio.create_task(self._do(taken))
        self._running[taken.id] = taken, task
        self._tenants[taken.tenant] = None
        self._of_tenant[taken.tenant] += 1
        task.add_done_callback(lambda done: self._stopped(taken, done))

    def _stopped(self, taken: Taken[T], task: asyncio.Task[None]) -> None:
        was_full = self._of_tenant[taken.tenant] >= self._per_tenant
        self._of_tenant[taken.tenant] -= 1
        # Counts of 0 would be kept for every tenant that ever had a row.
        self._of_tenant = +self._of_tenant
        if taken.id in self._running and self._running[taken.id][1] is task:
            was_full |= len(self._running) == self._most
            del self._running[taken.id]
        if was_full:
            self._news.set()

    async def _do(self, taken: Taken[T]) -> None:
        try:
            await self._work.do(taken)
        except DomainError as error:
            await self._failed(taken, error)
        except SHORTAGES:
            log.exception("%s met a shortage", self._name(taken.id))
            await self._failed(taken, InternalError())
        except Exception:  # BLE001: a fault of ours, the same at every attempt, ends it
            log.exception("%s is ended by a fault", self._name(taken.id))
            await self._end(taken, FAULT)

    async def _failed(self, taken: Taken[T], error: DomainError) -> None:
        """Has it tried again when that may help, and ends it otherwise."""
        transient = isinstance(error, TRANSIENT)
        if isinstance(error, InternalError):
            transient = faults_of(self._name(taken.id)) < FAULTS_MAX
        left_s = self._work.patience_s(taken) - taken.age_s
        if transient and left_s > 0:
            backoff_s = RETRY_FIRST_S * RETRY_FACTOR ** min(taken.attempts - 1, 20)
            asked_s = error.retry_after_s
            # Nothing slows a pause of nothing down.
            asked_s = None if asked_s is None else max(asked_s, RETRY_FIRST_S)
            pause_s = min(backoff_s, RETRY_MAX_S) if asked_s is None else asked_s
            delay_s = min(pause_s, left_s)
            log.info(
                "%s is tried again in %.1f s: %s", self._name(taken.id), delay_s, error.message
            )
            await self._give_back([taken.id], delay_s)
            asyncio.get_running_loop().call_later(delay_s, self._news.set)
            return
        await self._end(taken, error.message)

    async def _end(self, taken: Taken[T], message: str) -> None:
        try:
            await self._work.fail(taken, message)
        except DomainError as error:
            log.warning("%s is ended later: %s", self._name(taken.id), error.message)

    async def _give_back(self, ids: Sequence[str], delay_s: float) -> None:
        try:
            await self._queue.give_back(ids, delay_s)
        except DomainError as error:
            log.warning("leases of %ss have to end: %s", self.table.kind, error.message)

    def _name(self, id: str) -> str:
        return f"{self.table.kind} {id}"
