"""Items that arrive while a commit is in flight share the next commit."""

import asyncio
from itertools import chain

import pytest

from cost_ledger.errors import JournalRejected, KeyReused
from podium_kit.postgres.engine import DatabaseUnavailable
from podium_kit.postgres.group_commit import GroupCommit
from podium_kit.rpc.errors import DependencyAway, DomainError


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
    """As a gRPC call does when its channel is closed."""
    commits = Commits()
    group = make_group(commits)
    answers = await submit_all(group, [1, -499, 2])
    assert all(isinstance(answer, DependencyAway) for answer in answers)
    async with asyncio.timeout(10):
        assert await group.submit(4) == 8
