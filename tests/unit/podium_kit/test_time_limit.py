"""A limit on others' time, in a process that stands still now and then."""

import asyncio
import time

import pytest

from podium_kit.limits.time_limit import LATE_S, time_limit

LIMIT_S = 0.05


async def test_an_answer_that_came_while_the_process_stood_still_is_in_time() -> None:
    loop = asyncio.get_running_loop()
    answer = loop.create_future()
    loop.call_soon(time.sleep, LIMIT_S + 1.1 * LATE_S)
    loop.call_later(LIMIT_S + LATE_S, answer.set_result, "answered")
    async with time_limit(LIMIT_S):
        assert await answer == "answered"


@pytest.mark.parametrize("still_s", [0.0, LIMIT_S + 1.1 * LATE_S])
async def test_who_never_answers_is_waited_for_no_longer(still_s: float) -> None:
    asyncio.get_running_loop().call_soon(time.sleep, still_s)
    with pytest.raises(TimeoutError):
        async with time_limit(LIMIT_S):
            await asyncio.Event().wait()


async def test_a_cancelled_wait_is_cancelled() -> None:
    async def wait() -> None:
        async with time_limit(LIMIT_S):
            await asyncio.Event().wait()

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
