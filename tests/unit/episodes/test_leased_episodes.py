import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

from episodes.execution.executor import ExecutionLimits
from episodes.execution.outcomes import Finished, Outcome, Released
from episodes.models import EpisodeState, Progress, StopReason, StoredEpisode
from episodes.queue.leased_episodes import LeasedEpisodes
from episodes.queue.store import LeasedRow, QueuedEpisode

TURNS, LONG_TURNS = 5, 3


class Work:
    def __init__(self) -> None:
        self.taken: list[int] = []
        self.handed: list[str] = []
        self.released: list[str] = []

    def forget(self, _: str) -> None:
        pass

    def cache(self, stored: Any) -> Any:
        return SimpleNamespace(id=stored.new.episode_id, stored=stored)

    async def run(self, _: Any, limits: ExecutionLimits, *, is_retry: bool) -> Outcome:
        assert not is_retry
        for turn in range(1, TURNS):
            self.taken.append(turn)
            if reason := limits.release_reason(turn):
                return Released(turn, reason)
        return Finished(StopReason.ANSWERED, settled=True)

    async def hand_over(self, new: Any, ending: Finished | None = None) -> None:
        assert ending is None
        self.handed.append(new.episode_id)

    async def release(self, ids: list[str], _: float) -> None:
        self.released += ids


async def work_on(
    *,
    drains: bool = False,
    handed_over: bool = False,
    long_after_s: float = 30.0,
    long_turns: int = 12,
) -> Work:
    work: Any = Work()
    work.turns = work.episodes = work.logs = work
    leased = LeasedEpisodes(
        executor=work,
        handover=work,
        leases=work,
        drains=lambda: drains,
        long_after_s=long_after_s,
        long_turns=long_turns,
    )
    since = asyncio.get_running_loop().time()
    new: Any = SimpleNamespace(
        episode_id="e", turn_limit=9, time_limit_s=60.0, membership=SimpleNamespace(size=1)
    )
    stored = StoredEpisode(new, datetime.now(UTC), EpisodeState.PENDING, Progress())
    item = QueuedEpisode(stored, handed_over)
    await leased.do(LeasedRow("e", "acme", item, 1, since, asyncio.Event()))
    return cast(Work, work)


async def test_a_short_episode_ends_where_it_began() -> None:
    work = await work_on()
    assert (work.taken, work.handed, work.released) == ([1, 2, 3, 4], [], [])


async def test_a_workflow_continues_an_episode_of_many_turns() -> None:
    work = await work_on(long_turns=LONG_TURNS)
    assert (work.taken, work.handed) == ([1, 2, 3], ["e"])


async def test_a_workflow_continues_an_old_episode_after_its_turn() -> None:
    work = await work_on(long_after_s=-1.0)
    assert (work.taken, work.handed) == ([1], ["e"])


async def test_the_next_worker_continues_what_a_draining_one_leaves() -> None:
    work = await work_on(drains=True)
    assert (work.taken, work.handed, work.released) == ([1], [], ["e"])


async def test_an_episode_that_was_being_handed_over_is() -> None:
    work = await work_on(handed_over=True)
    assert (work.taken, work.handed) == ([], ["e"])
