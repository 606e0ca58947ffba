import asyncio
import threading
import time
from collections import Counter
from itertools import chain
from unittest.mock import AsyncMock, MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_ledger.errors import JournalRejected, KeyReused
from podium_kit.limits.concurrency import FairSemaphore, FairThread
from podium_kit.limits.time_limit import LATE_S, time_limit
from podium_kit.postgres.engine import DatabaseUnavailable
from podium_kit.postgres.group_commit import GroupCommit
from podium_kit.postgres.leadership import Leadership
from podium_kit.rpc.errors import DependencyAway, DomainError


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


def leadership_on(connection: AsyncMock) -> Leadership:
    engine = MagicMock()
    engine.execution_options.return_value.connect = AsyncMock(return_value=connection)
    return Leadership(engine, 1)


async def test_a_connection_that_could_not_ask_for_the_lock_is_ended() -> None:
    connection = AsyncMock()
    connection.execute.side_effect = ConnectionResetError
    with pytest.raises(ConnectionResetError):
        await leadership_on(connection).held()
    assert [call[0] for call in connection.method_calls] == ["execute", "invalidate", "close"]


@pytest.mark.parametrize("taken", [True, False])
async def test_a_connection_is_kept_with_the_lock_alone(taken: bool) -> None:
    connection = AsyncMock()
    connection.execute.return_value = MagicMock(scalar_one=lambda: taken)
    assert await leadership_on(connection).held() is taken
    assert connection.close.await_count == (not taken)


class Commits:
    """A commit that waits for `gate` and keeps the groups it was given."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, items: list[int]) -> list[int | DomainError]:
        self.groups.append(items)
        await self.gate.wait()
        if -13 in items:
            raise JournalRejected
        if -503 in items:
            raise DatabaseUnavailable
        if -499 in items:
            raise asyncio.CancelledError
        return [KeyReused("reserve", "7") if item == -7 else item * 2 for item in items]


def make_group(commits: Commits, weight_max: int = 100) -> GroupCommit[int, int]:
    return GroupCommit(commits, weight_of=lambda _: 1, weight_max=weight_max)


async def submit_all(group: GroupCommit[int, int], items: range | list[int]) -> list[object]:
    return await asyncio.gather(*map(group.submit, items), return_exceptions=True)


async def test_a_single_item_is_sent_without_waiting() -> None:
    commits = Commits()
    assert await make_group(commits).submit(4) == 8
    assert commits.groups == [[4]]


async def test_what_arrives_during_a_commit_goes_out_together() -> None:
    commits = Commits()
    commits.gate.clear()
    group = make_group(commits)
    first = asyncio.create_task(group.submit(0))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    rest = asyncio.create_task(submit_all(group, range(1, 64)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    commits.gate.set()
    assert await first == 0
    assert await rest == [number * 2 for number in range(1, 64)]
    assert commits.groups == [[0], list(range(1, 64))]


async def test_a_group_is_not_larger_than_its_weight() -> None:
    commits = Commits()
    await submit_all(make_group(commits, weight_max=10), range(25))
    assert max(map(len, commits.groups)) == 10
    assert list(chain(*commits.groups)) == list(range(25))


async def test_an_item_with_an_error_of_its_own_leaves_its_neighbours_alone() -> None:
    answers = await submit_all(make_group(Commits()), [6, -7, 8])
    assert (answers[0], answers[2]) == (12, 16)
    assert isinstance(answers[1], KeyReused)


async def test_an_item_that_spoils_its_group_fails_alone() -> None:
    answers = await submit_all(make_group(Commits()), [12, -13, 14])
    assert (answers[0], answers[2]) == (24, 28)
    assert isinstance(answers[1], JournalRejected)


async def test_a_database_that_is_away_fails_the_group_once() -> None:
    commits = Commits()
    answers = await submit_all(make_group(commits), [1, -503, 2])
    assert all(isinstance(answer, DatabaseUnavailable) for answer in answers)
    assert len(commits.groups) == 1


async def test_a_caller_that_gives_up_does_not_disturb_the_others() -> None:
    commits = Commits()
    commits.gate.clear()
    group = make_group(commits)
    leaving, staying = (asyncio.create_task(group.submit(number)) for number in (1, 2))
    await asyncio.sleep(0)
    leaving.cancel()
    commits.gate.set()
    assert await staying == 4
    with pytest.raises(asyncio.CancelledError):
        await leaving
    await group.close()
    assert list(chain(*commits.groups)) == [1, 2]


async def test_a_commit_that_ends_as_cancelled_stops_nothing_after_it() -> None:
    """A gRPC call does so when its channel is closed."""
    commits = Commits()
    group = make_group(commits)
    answers = await submit_all(group, [1, -499, 2])
    assert all(isinstance(answer, DependencyAway) for answer in answers)
    async with asyncio.timeout(10):
        assert await group.submit(4) == 8
