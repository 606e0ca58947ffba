import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

# A busy process is late by less.
LATE_S = 1.0


@asynccontextmanager
async def time_limit(seconds: float) -> AsyncIterator[None]:
    """Limits the time as `asyncio.timeout` does, without the pauses of this process.

    Stopped, swapped out or on a paused machine when the time ran out, it finds the limit passed
    while the answer may wait to be read. So it waits again, for as long as it was late, but
    `seconds` at most. Raises TimeoutError.
    """
    loop = asyncio.get_running_loop()
    due = loop.time() + seconds

    def expire() -> None:
        late_s = loop.time() - due
        limit.reschedule(loop.time() + (min(late_s, seconds) if late_s > LATE_S else 0.0))

    async with asyncio.timeout(None) as limit:
        timer = loop.call_at(due, expire)
        try:
            yield
        finally:
            timer.cancel()


SHORT_OF = {errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOSPC}
# Python has no class for it.
NO_THREAD = "can't start new thread"


def is_shortage(error: Exception) -> bool:
    """Returns whether this process lacks something that it may have again soon."""
    lacks = isinstance(error, OSError) and error.errno in SHORT_OF
    return lacks or isinstance(error, MemoryError) or str(error) == NO_THREAD
