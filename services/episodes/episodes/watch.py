"""Follows an episode live: reads the stored steps, then waits for a notification.

The step log is the source; a notification only triggers a read. A notification that is lost with
the listener's connection costs a second, any other ten, and never an event.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import nullcontext
from dataclasses import dataclass

from episodes.episodes.store_watch import NewsStore
from episodes.keys import canonical_id
from episodes.models import SEQUENCE_MAX, EpisodeState, Step, StoredEpisode
from episodes.step_log.answer_parts import ArrivingParts, WatchedAnswers, WrittenPart
from episodes.step_log.wakeups import Wakeups
from episodes.store import EpisodeStore
from podium_kit.rpc.bounds import OutOfBounds

FALLBACK_INTERVAL_S = 10.0


@dataclass(frozen=True)
class EpisodeProgress:
    """One event: its sequence, and the step or the ended episode it reports.

    Sequence 1 is the start, step n is n + 1, the end comes last. A part of an answer is no event:
    its sequence is that of the event before it.
    """

    sequence: int
    episode: StoredEpisode
    step: Step | None = None
    content_withheld: bool = False
    part: WrittenPart | None = None


class Watcher:
    """Follows any number of episodes with one database listener."""

    def __init__(
        self,
        episodes: EpisodeStore,
        news: NewsStore,
        wakeups: Wakeups,
        ends: Wakeups,
        answers: WatchedAnswers,
    ) -> None:
        self._episodes = episodes
        self._news = news
        self._wakeups = wakeups
        self._ends = ends
        self._answers = answers

    async def follow(
        self, tenant: str, episode_id: str, after: int, *, answer_parts: bool = False
    ) -> AsyncIterator[EpisodeProgress]:
        """Yields events after a sequence, in order and without gaps, until the end; between them
        parts of the answer, if those are asked for.

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
        shown = self._answers.of(episode_id) if answer_parts else nullcontext()
        with self._wakeups.of(episode_id) as news, shown as parts:
            stored = await self._episodes.get(tenant, episode_id)
            async for progress in self._events(stored, after, news, parts):
                yield progress

    async def end(self, tenant: str, episode_id: str) -> AsyncIterator[EpisodeProgress]:
        """Yields the end of the episode. Raises EpisodeNotFound, also for one that is erased."""
        episode_id = canonical_id(episode_id) or episode_id
        with self._ends.of(episode_id) as news:
            stored = await self._episodes.get(tenant, episode_id)
            if stored.ending is None:
                await _wait(news)
            while (found := await self._news.end(episode_id)) is None:
                stored = await self._episodes.get(tenant, episode_id)
                await _wait(news)
            yield EpisodeProgress(found.sequence, stored.ended(found.end))

    async def _events(
        self,
        stored: StoredEpisode,
        after: int,
        news: asyncio.Event,
        parts: ArrivingParts | None,
    ) -> AsyncIterator[EpisodeProgress]:
        seen = after
        if seen < 1:
            yield EpisodeProgress(seen := 1, stored)
        if seen == 1 and stored.state is EpisodeState.PENDING:
            async for part in _parts_until(news, parts):
                yield EpisodeProgress(seen, stored, part=part)
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
            async for part in _parts_until(news, parts):
                yield EpisodeProgress(seen, stored, part=part)


def _settled(steps: list[Step]) -> list[Step]:
    """Returns the steps up to the first of unknown cost."""
    for place, step in enumerate(steps):
        if not step.settled:
            return steps[:place]
    return steps


async def _parts_until(
    news: asyncio.Event, parts: ArrivingParts | None
) -> AsyncIterator[WrittenPart]:
    """Yields parts of an answer until there is news of steps."""
    if parts is None:
        await _wait(news)
        return
    waiting = asyncio.create_task(_wait(news))
    try:
        while not waiting.done():
            arriving = asyncio.create_task(parts.arrived())
            await asyncio.wait({waiting, arriving}, return_when=asyncio.FIRST_COMPLETED)
            arriving.cancel()
            for part in parts.taken():
                yield part
    finally:
        waiting.cancel()


async def _wait(news: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(FALLBACK_INTERVAL_S):
            await news.wait()
    except TimeoutError:
        return
    news.clear()
