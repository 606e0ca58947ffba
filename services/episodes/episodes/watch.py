"""Follows an episode live: reads the stored steps, then waits for a notification.

The step log is the source; a notification only triggers a read. A notification that is lost with
the listener's connection costs a second, any other ten, and never an event.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from episodes.episodes.store_watch import NewsStore
from episodes.keys import canonical_id
from episodes.models import SEQUENCE_MAX, EpisodeState, Step, StoredEpisode
from episodes.step_log.wakeups import Wakeups
from episodes.store import EpisodeStore
from podium_kit.rpc.bounds import OutOfBounds

FALLBACK_INTERVAL_S = 10.0


@dataclass(frozen=True)
class EpisodeProgress:
    """One event: its sequence, and the step or the ended episode it reports.

    Sequence 1 is the start, step n is n + 1, the end comes last.
    """

    sequence: int
    episode: StoredEpisode
    step: Step | None = None
    content_withheld: bool = False


class Watcher:
    """Follows any number of episodes with one database listener."""

    def __init__(self, episodes: EpisodeStore, news: NewsStore, wakeups: Wakeups) -> None:
        self._episodes = episodes
        self._news = news
        self._wakeups = wakeups

    async def follow(
        self, tenant: str, episode_id: str, after: int
    ) -> AsyncIterator[EpisodeProgress]:
        """Yields events after a sequence, in order and without gaps, until the end.

        Raises EpisodeNotFound, and OutOfBounds for a sequence that no event can have.
        """
        if after > SEQUENCE_MAX:
            raise OutOfBounds(
                "after_sequence",
                f"is {after}; give the sequence of an event, at most {SEQUENCE_MAX}",
            )
        # Notifications have the id as it is stored.
        episode_id = canonical_id(episode_id) or episode_id
        # The stored steps are read after the wake-up is set, so it covers those that they lack.
        with self._wakeups.of(episode_id) as news:
            stored = await self._episodes.get(tenant, episode_id)
            async for progress in self._events(stored, after, news):
                yield progress

    async def _events(
        self, stored: StoredEpisode, after: int, news: asyncio.Event
    ) -> AsyncIterator[EpisodeProgress]:
        seen = after
        if seen < 1:
            yield EpisodeProgress(seen := 1, stored)
        if seen == 1 and stored.state is EpisodeState.PENDING:
            await _wait(news)
        while True:
            found = await self._news.after(stored.new.episode_id, max(seen - 2, 0))
            end, steps = found.end, found.steps
            if seen > 1 and not any(step.sequence == seen - 1 for step in steps):
                return  # the watcher has seen the end already
            for step in steps if end else _settled(steps):
                if step.sequence >= seen:
                    yield EpisodeProgress(seen := step.sequence + 1, stored, step)
            if end:
                yield EpisodeProgress(seen + 1, stored.ended(end))
                return
            await _wait(news)


def _settled(steps: list[Step]) -> list[Step]:
    """Returns the steps up to the first of unknown cost."""
    for place, step in enumerate(steps):
        if not step.settled:
            return steps[:place]
    return steps


async def _wait(news: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(FALLBACK_INTERVAL_S):
            await news.wait()
    except TimeoutError:
        return
    news.clear()
