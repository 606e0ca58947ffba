"""Chat completions as episodes: start one, wait for it, leave it."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from typing import Protocol

from gateway.chat.request import ChatRequest
from gateway.chat.response import Chunks, Json, completion
from gateway.episode_ids import EpisodeId
from gateway.error_responses import error_body
from gateway.errors import AnswerTooLate, WatchLost
from gateway.models import EpisodeOrder, Outcome, Progress, ToolResults
from gateway.sse import data
from podium_kit import telemetry
from podium_kit.rpc.errors import DomainError, Unavailable

log = logging.getLogger(__name__)


class Episodes(Protocol):
    """What a chat needs of the episode service."""

    async def start(self, episode_id: str, order: EpisodeOrder) -> None: ...
    async def answer(self, results: ToolResults) -> None: ...
    def events(
        self, episode_id: str, answered_turn: int = 0
    ) -> AsyncIterator[Progress | Outcome]: ...
    async def cancel(self, episode_id: str, reason: str) -> None: ...


class ChatRun:
    """One chat completion: an episode that was started or goes on, and the wait for its end, or
    for calls that the client is to run."""

    def __init__(
        self, episodes: Episodes, episode: EpisodeId, request: ChatRequest, wait_s: float
    ) -> None:
        self._episodes = episodes
        self._episode = episode
        self._request = request
        self._wait_s = wait_s
        self._created = int(time.time())
        self._answered_turn = 0
        self._ended = False

    @property
    def episode_id(self) -> str:
        return self._episode.value

    async def start(self, order: EpisodeOrder) -> None:
        """Starts the episode, as the root of its own trace."""
        with telemetry.episode_context(self.episode_id), telemetry.span("gateway.start_episode"):
            await self._episodes.start(self.episode_id, order)

    async def go_on(self, results: ToolResults) -> None:
        """Gives the episode what the client's functions gave."""
        self._answered_turn = results.turn
        await self._episodes.answer(results)

    async def complete(self) -> Json:
        """Waits for the end. Raises the error of an episode without an answer."""
        async for event in self._events():
            if isinstance(event, Outcome):
                return completion(event, self._request.model, self._created)
        raise AssertionError("a watch ends with an outcome or an error")

    async def stream(self) -> AsyncIterator[bytes]:
        """Server-sent events from the first turn to the answer, or to an error event:
        the status line is long gone by then."""
        chunks = Chunks(self.episode_id, self._request.model, self._created)
        yield chunks.opening()
        try:
            async for event in self._events():
                if isinstance(event, Progress):
                    yield chunks.reasoning(event.line)
                    continue
                for chunk in chunks.closing(event, self._request.stream_options.include_usage):
                    yield chunk
        except DomainError as error:
            yield data(error_body(error))

    async def leave(self) -> None:
        """The client is gone. Nobody can come back for an episode the gateway named,
        so it is cancelled; one the caller named goes on."""
        if self._ended or self._episode.chosen_by_caller:
            return
        self._ended = True
        log.info("client went away, cancelling episode %s", self.episode_id)
        try:
            await self._episodes.cancel(self.episode_id, "the client disconnected")
        except DomainError as error:
            log.warning("episode %s was not cancelled: %s", self.episode_id, error.reason)

    async def _events(self) -> AsyncIterator[Progress | Outcome]:
        deadline = time.monotonic() + self._wait_s
        source = self._episodes.events(self.episode_id, self._answered_turn)
        while not self._ended:
            try:
                event = await asyncio.wait_for(anext(source), deadline - time.monotonic())
            except TimeoutError as error:
                raise AnswerTooLate(self.episode_id, self._wait_s) from error
            except Unavailable as error:
                raise WatchLost(self.episode_id) from error
            self._ended = isinstance(event, Outcome)
            yield event
