"""Leases rows of a queue and works on them.

A row belongs to one worker for the length of a lease, which is renewed meanwhile. The rows of a
worker that dies are leased by others, which continue from what is stored.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from cachetools import TTLCache

from episodes.errors import FAULTS_MAX, TRANSIENT, faults_of
from episodes.queue.store import LeasedRow, QueueTable, WorkQueue
from podium_kit.postgres.leadership import Leadership
from podium_kit.rpc.errors import DomainError, InternalError

log = logging.getLogger(__name__)

T = TypeVar("T")

# With the interval of looking this is how long the rows of a worker stand still that no longer
# renews, at most; of one whose process has ended, as long as a renewal is late.
LEASE_S = 4.0
RENEW_INTERVAL_S = 1.0
LATE_S = 0.25
ORPHANS_INTERVAL_S = 0.5
PRESENCE_INTERVAL_S = 1.0
POLL_INTERVAL_S = 1.0
ACQUIRED_AT_ONCE = 100
# The most rows of one tenant at once while another had any in the last NEIGHBOUR_S: all rows share
# the worker's processor, so a flood of one tenant would delay every turn of the others.
PER_TENANT_MAX, NEIGHBOUR_S, NEIGHBOURS_KNOWN = 32, 60.0, 1000
RETRY_FIRST_S, RETRY_FACTOR, RETRY_MAX_S = 0.2, 1.5, 3.0
# The process is short of memory, files or sockets, and may not be for long.
SHORTAGES = (MemoryError, OSError)
FAULT = "a fault of the platform, whose log says which; what it has cost is not known"


class Work(Protocol[T]):
    async def do(self, leased: LeasedRow[T]) -> None:
        """Continues from what is stored. Its errors are retried where a retry may help."""

    async def fail(self, leased: LeasedRow[T], message: str) -> None: ...

    def max_age_s(self, leased: LeasedRow[T]) -> float: ...


class LeaseWorker(Generic[T]):
    """Works on `max_concurrency` rows at once; `acquire` and `renew` are background tasks.

    While `is_current` returns False it acquires none.
    """

    def __init__(
        self,
        queue: WorkQueue[T],
        work: Work[T],
        max_concurrency: int,
        is_current: Callable[[], bool] = lambda: True,
    ) -> None:
        self._queue = queue
        self._work = work
        self._max_concurrency = max_concurrency
        self._is_current = is_current
        self._running: dict[str, tuple[LeasedRow[T], asyncio.Task[None]]] = {}
        self._of_tenant: Counter[str] = Counter()
        self._tenants: TTLCache[str, None] = TTLCache(NEIGHBOURS_KNOWN, NEIGHBOUR_S)
        self._news = asyncio.Event()
        self._acquiring = asyncio.Lock()
        self._changed = False
        self._drained_at: float | None = None

    @property
    def table(self) -> QueueTable[T]:
        return self._queue.table

    def notify(self, id: str) -> None:
        """Reports that a row is new, or was changed by a server or another worker."""
        self._changed |= id in self._running
        self._news.set()

    def notify_all(self) -> None:
        self._changed |= bool(self._running)
        self._news.set()

    def start(self, leased: LeasedRow[T]) -> None:
        """Works on a row that was leased as it was stored, see `has_room`."""
        self._start(leased)

    @property
    def drains(self) -> bool:
        return self._drained_at is not None

    @property
    def has_room(self) -> bool:
        return not self.drains and len(self._running) < self._max_concurrency

    async def acquire(self) -> None:
        """Waits for a notification, and leases as many rows as there is room for."""
        try:
            async with asyncio.timeout(POLL_INTERVAL_S):
                await self._news.wait()
        except TimeoutError:
            pass
        self._news.clear()
        if self._changed:
            self._changed = False
            await self.renew()
        async with self._acquiring:
            room = min(self._max_concurrency - len(self._running), ACQUIRED_AT_ONCE)
            if room <= 0 or self._drained_at is not None or not self._is_current():
                return
            rows = await self._queue.acquire(room, LEASE_S, self._per_tenant)
            for leased in rows:
                self._start(leased)
        if len(rows) == room:
            self._news.set()

    @property
    def _per_tenant(self) -> int:
        return (
            min(self._max_concurrency, PER_TENANT_MAX)
            if len(self._tenants) > 1
            else self._max_concurrency
        )

    async def renew(self) -> None:
        """Renews the leases; the work on a row that another worker has by now is cancelled."""
        if not (running := dict(self._running)):
            return
        renewed = await self._queue.renew(list(running), LEASE_S)
        for id, (leased, task) in running.items():
            if id not in renewed:
                # One that has just ended is in no queue either.
                task.cancel()
            elif renewed[id]:
                leased.cancelled.set()

    async def take_over(self, presence: Leadership) -> None:
        """Has rows acquired whose worker's process has ended.

        `presence` is the lock of this worker's name. Only a session older than a lease judges
        others: after a restart of the database all sessions are new.
        """
        if presence.held_for_s < LEASE_S:
            return
        if await self._queue.free_orphans(LEASE_S - RENEW_INTERVAL_S - LATE_S):
            self._news.set()

    def drain(self, within_s: float) -> None:
        """Acquires no more; running work gets so long."""
        self._drained_at = asyncio.get_running_loop().time() + within_s

    async def close(self) -> None:
        """Waits for running work until `drain`'s time is over, and releases the rest."""
        # What is being leased at this moment is this worker's, too.
        with suppress(TimeoutError):
            async with asyncio.timeout(LEASE_S), self._acquiring:
                pass
        loop = asyncio.get_running_loop()
        remaining_s = max(0.0, (self._drained_at or loop.time()) - loop.time())
        if self._running:
            await asyncio.wait([task for _, task in self._running.values()], timeout=remaining_s)
        if unfinished := dict(self._running):
            for _, task in unfinished.values():
                task.cancel()
            await asyncio.wait([task for _, task in unfinished.values()])
            await self._release(list(unfinished), 0.0)

    def _start(self, leased: LeasedRow[T]) -> None:
        # Its lease ended here, and it was leased again before that was noticed.
        if before := self._running.pop(leased.id, None):
            before[1].cancel()
        task = asyncio.create_task(self._do(leased))
        self._running[leased.id] = leased, task
        self._tenants[leased.tenant] = None
        self._of_tenant[leased.tenant] += 1
        task.add_done_callback(lambda done: self._stopped(leased, done))

    def _stopped(self, leased: LeasedRow[T], task: asyncio.Task[None]) -> None:
        was_full = self._of_tenant[leased.tenant] >= self._per_tenant
        self._of_tenant[leased.tenant] -= 1
        # Counts of 0 would be kept for every tenant that ever had a row.
        self._of_tenant = +self._of_tenant
        if leased.id in self._running and self._running[leased.id][1] is task:
            was_full |= len(self._running) == self._max_concurrency
            del self._running[leased.id]
        if was_full:
            self._news.set()

    async def _do(self, leased: LeasedRow[T]) -> None:
        try:
            await self._work.do(leased)
        except DomainError as error:
            await self._failed(leased, error)
        except SHORTAGES:
            log.exception("%s met a shortage", self._name(leased.id))
            await self._failed(leased, InternalError())
        except Exception:  # BLE001: a fault of renewed, the same at every attempt, ends it
            log.exception("%s is ended by a fault", self._name(leased.id))
            await self._end(leased, FAULT)

    async def _failed(self, leased: LeasedRow[T], error: DomainError) -> None:
        transient = isinstance(error, TRANSIENT)
        if isinstance(error, InternalError):
            transient = faults_of(self._name(leased.id)) < FAULTS_MAX
        remaining_s = self._work.max_age_s(leased) - leased.age_s
        if transient and remaining_s > 0:
            backoff_s = RETRY_FIRST_S * RETRY_FACTOR ** min(leased.attempts - 1, 20)
            asked_s = error.retry_after_s
            # Nothing slows a pause of nothing down.
            asked_s = None if asked_s is None else max(asked_s, RETRY_FIRST_S)
            pause_s = min(backoff_s, RETRY_MAX_S) if asked_s is None else asked_s
            delay_s = min(pause_s, remaining_s)
            log.info(
                "%s is tried again in %.1f s: %s", self._name(leased.id), delay_s, error.message
            )
            await self._release([leased.id], delay_s)
            asyncio.get_running_loop().call_later(delay_s, self._news.set)
            return
        await self._end(leased, error.message)

    async def _end(self, leased: LeasedRow[T], message: str) -> None:
        try:
            await self._work.fail(leased, message)
        except DomainError as error:
            log.warning("%s is ended later: %s", self._name(leased.id), error.message)

    async def _release(self, ids: Sequence[str], delay_s: float) -> None:
        try:
            await self._queue.release(ids, delay_s)
        except DomainError as error:
            log.warning("leases of %ss have to end: %s", self.table.kind, error.message)

    def _name(self, id: str) -> str:
        return f"{self.table.kind} {id}"
