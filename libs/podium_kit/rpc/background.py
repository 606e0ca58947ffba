"""Background tasks: what a process does by itself, again and again, until it ends.

A round that fails in any way is logged, counted and tried again after a growing pause. A round
that does not end counts as one more failure for every `round_max_s` it takes. After FAILURES_SHOWN
failures in a row the health service "background/<name>" is NOT_SERVING until a round succeeds.
Readiness stays with the dependency checks: a stuck roll-up is a reason to look at the ledger, not
to take it away from its callers.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import tenacity

from podium_kit import telemetry
from podium_kit.rpc.errors import DomainError, message_of

log = logging.getLogger(__name__)

FAILURES_SHOWN = 3
ROUND_MAX_S = 60.0
HANGING = "hanging"
BACKOFF = tenacity.wait_exponential_jitter(multiplier=0.5, max=15, jitter=0.5)
_failures = telemetry.get_meter(__name__).create_counter(
    "podium.background.failures",
    "{failure}",
    "failed rounds of background tasks, and minutes that one hangs",
)


class BackgroundTask:
    """Does `work` every `interval_s` seconds, and at once again while it returns True."""

    def __init__(
        self,
        name: str,
        work: Callable[[], Awaitable[object]],
        interval_s: float,
        round_max_s: float = ROUND_MAX_S,
    ) -> None:
        self.name = name
        self.failures = 0
        """Failures since the last round that succeeded."""
        self._work = work
        self._interval_s = interval_s
        self._round_max_s = round_max_s

    @property
    def is_failing(self) -> bool:
        """True if it failed so often in a row that an operator should look."""
        return self.failures >= FAILURES_SHOWN

    async def run(self) -> None:
        supervised = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(_is_of_the_round),
            wait=BACKOFF,
            before_sleep=self._failed,
        )
        while True:
            more: object = await supervised(self._round)
            if self.failures:
                log.info("background task %s works again", self.name)
                self.failures = 0
            if more is not True:
                await asyncio.sleep(self._interval_s)

    async def _round(self) -> object:
        watching = asyncio.create_task(self._watch())
        try:
            return await self._work()
        finally:
            watching.cancel()

    async def _watch(self) -> None:
        """Counts the round as failing for as long as it hangs."""
        while True:
            await asyncio.sleep(self._round_max_s)
            self._count(HANGING)
            log.warning(
                "background task %s hangs: its round has not ended in %g s, %d failures in a row",
                self.name,
                self._round_max_s,
                self.failures,
            )

    def _count(self, kind: str) -> None:
        self.failures += 1
        _failures.add(1, {"podium.background.task": self.name, "error.type": kind})

    def _failed(self, attempt: tenacity.RetryCallState) -> None:
        error = attempt.outcome.exception() if attempt.outcome else None
        assert error is not None
        self._count(type(error).__name__)
        log.warning(
            "background task %s failed, %d in a row: %s; next try in %.1f s",
            self.name,
            self.failures,
            message_of(error),
            attempt.upcoming_sleep,
            exc_info=error if self.failures == 1 and not isinstance(error, DomainError) else None,
        )


@asynccontextmanager
async def background(tasks: Sequence[BackgroundTask]) -> AsyncIterator[None]:
    running = [asyncio.create_task(task.run(), name=task.name) for task in tasks]
    try:
        yield
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _is_of_the_round(error: BaseException) -> bool:
    """A round may also end in a cancellation of its own, as a gRPC call of a closed channel."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and not task.cancelling()
    return isinstance(error, Exception)
