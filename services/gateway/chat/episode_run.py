import asyncio
import logging
import time
from collections.abc import AsyncIterator
from typing import Protocol

from gateway.episode_ids import EpisodeId
from gateway.errors import AnswerTooLate, WatchLost
from gateway.models import EpisodeOrder, Outcome, ProgressNote, ToolResults
from podium_kit import telemetry
from podium_kit.rpc.errors import DomainError, Unavailable

log = logging.getLogger(__name__)


class EpisodeRunner(Protocol):
    async def start(self, episode_id: str, order: EpisodeOrder) -> None: ...
    async def count_tokens(self, order: EpisodeOrder) -> int: ...
    async def answer(self, results: ToolResults) -> None: ...
    def events(
        self, episode_id: str, answered_turn: int = 0, *, with_calls: bool = False
    ) -> AsyncIterator[ProgressNote | Outcome]: ...
    async def cancel(self, episode_id: str, reason: str) -> None: ...


class EpisodeRun:
    """One request's part of an episode: to its end, or to calls that the client is to run."""

    def __init__(
        self, episodes: EpisodeRunner, episode: EpisodeId, wait_s: float, answered_turn: int = 0
    ) -> None:
        self._episodes = episodes
        self._episode = episode
        self._wait_s = wait_s
        self._is_over = False
        self.answered_turn = answered_turn

    @property
    def episode_id(self) -> str:
        return self._episode.value

    async def start(self, order: EpisodeOrder) -> None:
        with telemetry.episode_context(self.episode_id), telemetry.span("gateway.start_episode"):
            await self._episodes.start(self.episode_id, order)

    async def go_on(self, results: ToolResults) -> None:
        await self._episodes.answer(results)

    async def outcome(self, *, with_calls: bool = False) -> Outcome:
        async for event in self.events(with_calls=with_calls):
            if isinstance(event, Outcome):
                return event
        raise AssertionError("a watch ends with an outcome or an error")

    async def events(self, *, with_calls: bool = False) -> AsyncIterator[ProgressNote | Outcome]:
        """Yields progress, and the outcome last. Raises AnswerTooLate, WatchLost."""
        deadline = time.monotonic() + self._wait_s
        source = self._episodes.events(self.episode_id, self.answered_turn, with_calls=with_calls)
        while not self._is_over:
            try:
                event = await asyncio.wait_for(anext(source), deadline - time.monotonic())
            except TimeoutError as error:
                self._is_over = True
                raise AnswerTooLate(self.episode_id, self._wait_s) from error
            except Unavailable as error:
                self._is_over = True
                raise WatchLost(self.episode_id) from error
            self._is_over = isinstance(event, Outcome)
            yield event

    async def leave(self, reason: str) -> None:
        """Cancels the episode if the gateway named it: no client can come back for it. One that
        the caller named continues, and so does one whose id an error has given."""
        if self._is_over or self._episode.chosen_by_caller:
            return
        self._is_over = True
        log.info("cancelling episode %s: %s", self.episode_id, reason)
        try:
            await self._episodes.cancel(self.episode_id, reason)
        except DomainError as error:
            log.warning("episode %s was not cancelled: %s", self.episode_id, error.reason)
