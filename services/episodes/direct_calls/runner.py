"""Makes the direct calls that this worker has taken from the queue.

A call is one worker's for the length of a lease, which is renewed while the call is made. A worker
that dies leaves its calls to whoever looks next; each goes on from what is stored of it.
"""

import asyncio
import logging
from collections.abc import Sequence

from episodes.direct_calls.call import DirectCall
from episodes.direct_calls.making import DirectCallMaker
from episodes.direct_calls.store_queue import CallQueue, TakenCall
from episodes.temporal.activity_errors import FAULTS_MAX, TRANSIENT, faults_of
from podium_kit.rpc.errors import DeadlineExceeded, DomainError, InternalError

log = logging.getLogger(__name__)

# With the interval of looking this is how long a dead worker's calls stand still, at most.
LEASE_S = 4.0
KEEP_INTERVAL_S = 1.5
LOOK_INTERVAL_S = 1.0
TAKEN_AT_ONCE = 100
# Beyond the time of the call's tool, for the ledger and the stores.
MARGIN_S = 60.0
# Parts of the platform that are away for so long end the call.
PATIENCE_S = 600.0
RETRY_FIRST_S, RETRY_FACTOR, RETRY_MAX_S = 0.2, 1.5, 3.0


class DirectCallRunner:
    """So many calls at once; `take` and `keep` are background tasks."""

    def __init__(self, queue: CallQueue, maker: DirectCallMaker, calls_max: int) -> None:
        self._queue = queue
        self._maker = maker
        self._calls_max = calls_max
        self._running: dict[str, asyncio.Task[None]] = {}
        self._news = asyncio.Event()
        self._drained_at: float | None = None

    def look(self) -> None:
        """Something may be there to take."""
        self._news.set()

    async def take(self) -> None:
        """Waits for news, and takes what there is room for."""
        try:
            async with asyncio.timeout(LOOK_INTERVAL_S):
                await self._news.wait()
        except TimeoutError:
            pass
        self._news.clear()
        room = min(self._calls_max - len(self._running), TAKEN_AT_ONCE)
        if room <= 0 or self._drained_at is not None:
            return
        taken = await self._queue.take(room, LEASE_S)
        for call in taken:
            self._start(call)
        if len(taken) == room:
            self.look()

    async def keep(self) -> None:
        """Renews what is being made; what another worker has by now is left to it."""
        if not (kept := list(self._running)):
            return
        ours = await self._queue.keep(kept, LEASE_S)
        for call_id in kept:
            if call_id not in ours and (task := self._running.get(call_id)):
                log.warning("direct call %s is made by another worker", call_id)
                task.cancel()

    def drain(self, within_s: float) -> None:
        """Takes no more; what is being made gets so long."""
        self._drained_at = asyncio.get_running_loop().time() + within_s

    async def close(self) -> None:
        """Waits for what is being made as `drain` said, and gives back the rest."""
        loop = asyncio.get_running_loop()
        left_s = max(0.0, (self._drained_at or loop.time()) - loop.time())
        if self._running:
            await asyncio.wait(self._running.values(), timeout=left_s)
        if left := dict(self._running):
            for task in left.values():
                task.cancel()
            await asyncio.wait(left.values())
            await self._give_back(list(left), 0.0)

    def _start(self, call: TakenCall) -> None:
        call_id = call.stored.id
        # Its lease ended here, and it was taken again before that was noticed.
        if before := self._running.pop(call_id, None):
            before.cancel()
        task = asyncio.create_task(self._make(call))
        self._running[call_id] = task
        task.add_done_callback(lambda done: self._stopped(call_id, done))

    def _stopped(self, call_id: str, task: asyncio.Task[None]) -> None:
        if self._running.get(call_id) is task:
            del self._running[call_id]
            if len(self._running) == self._calls_max - 1:
                self.look()

    async def _make(self, call: TakenCall) -> None:
        stored = call.stored
        longest_s = DirectCall.of(stored).timeout_s + MARGIN_S
        try:
            async with asyncio.timeout(longest_s):
                if stored.ended:
                    await self._queue.drop(stored.id)
                else:
                    await self._maker.make(stored)
            return
        except DomainError as error:
            failed: DomainError = error
        except TimeoutError:
            failed = DeadlineExceeded("the platform did not make the call in time")
        except Exception:  # BLE001: whatever it is, the call is made again, or ended
            log.exception("internal error in direct call %s", stored.id)
            failed = InternalError()
        await self._failed(call, failed, longest_s)

    async def _failed(self, call: TakenCall, error: DomainError, longest_s: float) -> None:
        """Has it made again when that may help, and ends it otherwise."""
        call_id = call.stored.id
        transient = isinstance(error, TRANSIENT)
        if isinstance(error, InternalError):
            transient = faults_of(f"direct call {call_id}") < FAULTS_MAX
        if transient and call.age_s < longest_s + PATIENCE_S:
            backoff_s = RETRY_FIRST_S * RETRY_FACTOR ** min(call.attempts - 1, 20)
            asked_s = error.retry_after_s
            delay_s = min(backoff_s, RETRY_MAX_S) if asked_s is None else asked_s
            await self._give_back([call_id], delay_s)
            asyncio.get_running_loop().call_later(delay_s, self.look)
            return
        try:
            await self._maker.fail(call_id, error.message)
        except DomainError as again:
            log.warning("direct call %s is ended later: %s", call_id, again.message)

    async def _give_back(self, call_ids: Sequence[str], delay_s: float) -> None:
        try:
            await self._queue.give_back(call_ids, delay_s)
        except DomainError as error:
            log.warning("direct calls wait for their leases to end: %s", error.message)
