"""Workflows that may never have been started are started, each once a round."""

from collections import Counter
from typing import Any

from episodes.models import NewEpisode, StoredEpisode
from episodes.workflows.sweep import BATCH, StarterSweep
from unit.episodes.stored_episodes import stored_episode

ROUNDS = 3


class Overdue:
    """More episodes than a batch holds; no model has answered any of them yet."""

    def __init__(self) -> None:
        self.ids = [f"01900000-0000-7000-8000-{number:012}" for number in range(BATCH + 1)]
        self.started: Counter[str] = Counter()

    async def unstarted(self, after_id: str, _: float, limit: int) -> list[StoredEpisode]:
        return [stored_episode(each) for each in self.ids if each > after_id][:limit]

    async def start(self, new: NewEpisode) -> None:
        self.started[new.episode_id] += 1


async def test_a_round_starts_all_of_them_and_ends() -> None:
    overdue: Any = Overdue()
    sweep = StarterSweep(overdue, overdue)
    for _ in range(ROUNDS):
        assert [await sweep.sweep(), await sweep.sweep()] == [True, False]
    assert overdue.started == dict.fromkeys(overdue.ids, ROUNDS)
