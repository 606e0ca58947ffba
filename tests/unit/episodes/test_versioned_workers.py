"""Temporal decides which version of a worker runs an episode, so such a worker takes no turns."""

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from episodes.leases.store_queue import Taken
from episodes.models import EpisodeState, Progress, StoredEpisode
from episodes.queued.store_queue import QueuedEpisode
from episodes.queued.turns import QueuedEpisodes
from episodes.workflows.payloads import TurnResult

FINISHED = TurnResult(stop="answered", finished=True)


class Work:
    """Everything an episode could be given to."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.handed: list[str] = []

    def forget(self, _: str) -> None:
        pass

    def keep(self, stored: Any) -> Any:
        return SimpleNamespace(id=stored.new.episode_id, stored=stored)

    async def take(self, turn: Any, **_: Any) -> TurnResult:
        self.taken.append(turn.episode_id)
        return FINISHED

    async def hand_over(self, new: Any, ending: TurnResult | None = None) -> None:
        assert ending is None
        self.handed.append(new.episode_id)


@pytest.mark.parametrize(
    ("versioned", "handed_over"), [(False, False), (True, False), (False, True)]
)
async def test_who_goes_on_with_an_episode(versioned: bool, handed_over: bool) -> None:
    work: Any = Work()
    work.episodes = work.logs = work
    queued = QueuedEpisodes(work, work, drains=lambda: False, versioned=versioned)
    since = asyncio.get_running_loop().time()
    new: Any = SimpleNamespace(
        episode_id="e", turn_limit=5, time_limit_s=60.0, membership=SimpleNamespace(size=1)
    )
    stored = StoredEpisode(new, datetime.now(UTC), EpisodeState.PENDING, Progress())
    item = QueuedEpisode(stored, handed_over)
    await queued.do(Taken("e", "acme", item, 1, since, asyncio.Event()))
    here = not versioned and not handed_over
    assert (work.taken, work.handed) == ((["e"], []) if here else ([], ["e"]))
