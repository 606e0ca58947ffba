"""FairSemaphore of a tool: one tenant may have them all, none keeps them from the others."""

import asyncio
import threading
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from podium_kit.limits.concurrency import FairSemaphore, FairThread


class Callers:
    """Calls that hold a place until they are told to end."""

    def __init__(self, places: FairSemaphore) -> None:
        self._places = places
        self.inside: list[str] = []
        self._running: list[tuple[str, asyncio.Task[None], asyncio.Event]] = []

    async def call(self, tenant: str) -> None:
        end = asyncio.Event()
        task = asyncio.create_task(self._call(tenant, end))
        self._running.append((tenant, task, end))
        await asyncio.sleep(0)

    async def end(self, tenant: str) -> None:
        """The tenant's oldest call that has a place."""
        found = next(each for each in self._running if each[0] == tenant)
        self._running.remove(found)
        found[2].set()
        await found[1]
        await asyncio.sleep(0)

    async def cancel(self, number: int) -> None:
        _, task, _ = self._running.pop(number)
        task.cancel()
        await asyncio.wait({task})
        await asyncio.sleep(0)

    async def close(self) -> None:
        while self._running:
            await self.cancel(0)

    async def _call(self, tenant: str, end: asyncio.Event) -> None:
        async with self._places.slot(tenant):
            self.inside.append(tenant)
            try:
                await end.wait()
            finally:
                self.inside.remove(tenant)


async def test_a_tenant_with_many_calls_does_not_hold_up_another() -> None:
    callers = Callers(FairSemaphore(2))
    for tenant in ("busy", "busy", "busy", "busy", "busy", "quiet"):
        await callers.call(tenant)
    assert callers.inside == ["busy", "busy"]
    await callers.end("busy")
    assert sorted(callers.inside) == ["busy", "quiet"]
    await callers.end("quiet")
    assert callers.inside == ["busy", "busy"]
    await callers.close()


async def test_those_with_as_few_take_turns() -> None:
    callers = Callers(FairSemaphore(1))
    for tenant in ("first", "a", "a", "b", "c"):
        await callers.call(tenant)
    served = []
    for _ in range(4):
        await callers.end(callers.inside[0])
        served += callers.inside
    assert served == ["a", "b", "c", "a"]
    await callers.close()


@given(
    count=st.integers(1, 3),
    steps=st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.integers(0, 20))),
)
def test_no_place_is_lost_and_none_is_given_twice(
    count: int, steps: list[tuple[str, bool, int]]
) -> None:
    async def play() -> None:
        places = FairSemaphore(count)
        callers = Callers(places)
        waiting = 0
        for tenant, is_call, number in steps:
            if is_call:
                await callers.call(tenant)
                waiting += 1
            elif waiting:
                await callers.cancel(number % waiting)
                waiting -= 1
            assert len(callers.inside) == min(count, waiting)
            assert places.is_exhausted == (waiting >= count)
        await callers.close()
        assert not Counter(callers.inside)
        assert not places.is_exhausted

    asyncio.run(play())


async def test_a_tenant_that_computes_without_end_is_followed_by_the_next() -> None:
    thread, order = FairThread(), []
    flood = [thread.run("evil", lambda: order.append("evil")) for _ in range(20)]
    started = [asyncio.ensure_future(each) for each in flood]
    await asyncio.sleep(0)
    await thread.run("bank", lambda: order.append("bank"))
    await asyncio.gather(*started)
    assert "bank" in order[:3]


async def test_a_computation_whose_caller_left_keeps_its_place_until_it_ends() -> None:
    thread, begun, end, running = FairThread(), asyncio.Event(), threading.Event(), Counter[str]()
    loop = asyncio.get_running_loop()

    def work() -> int:
        running["now"] += 1
        loop.call_soon_threadsafe(begun.set)
        end.wait()
        most = running["now"]
        running["now"] -= 1
        return most

    left = asyncio.create_task(thread.run("evil", work))
    await begun.wait()
    left.cancel()
    await asyncio.wait({left})
    following = asyncio.create_task(thread.run("bank", work))
    try:
        await asyncio.sleep(0)
        now = running["now"]
    finally:
        end.set()
    assert (now, await following) == (1, 1)
