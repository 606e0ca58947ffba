"""Several things at once, and one error when they fail."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

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
