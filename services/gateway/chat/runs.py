import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from gateway.chat.catalogue import Choice
from gateway.chat.outcomes import ERROR_OF_FAILURE, REASON_OF_FAILURE
from gateway.episode_ids import EpisodeId
from gateway.errors import AnswerTooLate, CallTooLate, UnsupportedParameter, WatchLost
from gateway.models import EmbeddingOrder, ListOrder, Outcome, ProgressNote, ToolResults, Vectors
from podium_kit import telemetry
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.rpc import errors
from podium_kit.rpc.errors import DomainError, Unavailable

log = logging.getLogger(__name__)


class Run(Protocol):
    @property
    def episode_id(self) -> str: ...
    @property
    def answered_turn(self) -> int: ...
    async def start(self, order: ListOrder) -> None: ...
    def events(self) -> AsyncIterator[ProgressNote | Outcome]: ...
    async def outcome(self, *, with_calls: bool = False) -> Outcome: ...
    async def leave(self, reason: str) -> None: ...


Event = ProgressNote | Outcome | DomainError


async def merged(runs: Sequence[Run]) -> AsyncIterator[tuple[int, Event]]:
    """Merges the events of runs, by index; each run ends with an outcome or an error."""
    events: asyncio.Queue[tuple[int, Event]] = asyncio.Queue()
    following = [asyncio.create_task(_follow(*each, events)) for each in enumerate(runs)]
    try:
        running = len(following)
        while running:
            index, event = await events.get()
            running -= not isinstance(event, ProgressNote)
            yield index, event
    finally:
        for task in following:
            task.cancel()


async def _follow(index: int, run: Run, events: asyncio.Queue[tuple[int, Event]]) -> None:
    try:
        async for event in run.events():
            events.put_nowait((index, event))
    except DomainError as error:
        events.put_nowait((index, error))


class EpisodeRunner(Protocol):
    async def start(self, episode_id: str, order: ListOrder) -> None: ...
    async def count_tokens(self, order: ListOrder) -> int: ...
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

    async def start(self, order: ListOrder) -> None:
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


FIX = "only an orchestrator honours it, and `model` names a tool; leave it out"
# The provider's words on a request are the caller's to correct; what it broke off is not.
ERROR_OF_CALL: dict[FailureKind, type[errors.DomainError]] = {
    **ERROR_OF_FAILURE,
    FailureKind.TOOL_ERROR: errors.FailedPrecondition,
    FailureKind.MALFORMED_OUTPUT: errors.Unavailable,
}


class DirectCallRunner(Protocol):
    async def start(self, call_id: str, order: ListOrder, tool: str, alias: str) -> None: ...
    async def outcome(self, call_id: str) -> Outcome: ...
    async def embed(self, call_id: str, order: EmbeddingOrder) -> None: ...
    async def vectors(self, call_id: str) -> Vectors: ...


class DirectRun:
    """One call. A client that goes away leaves it to its tool's time limit."""

    answered_turn = 0

    def __init__(
        self, calls: DirectCallRunner, call: EpisodeId, choice: Choice, wait_s: float
    ) -> None:
        self._calls = calls
        self._call = call
        self._choice = choice
        self._wait_s = wait_s

    @property
    def episode_id(self) -> str:
        return self._call.value

    async def start(self, order: ListOrder) -> None:
        _require_direct(order)
        tool, alias = self._choice.tool, self._choice.alias
        with telemetry.episode_context(self.episode_id), telemetry.span("gateway.start_episode"):
            await self._calls.start(self.episode_id, order, tool, alias)

    async def events(self) -> AsyncIterator[ProgressNote | Outcome]:
        yield await self.outcome()

    async def outcome(self, *, with_calls: bool = False) -> Outcome:
        try:
            async with asyncio.timeout(self._wait_s):
                ended = await self._calls.outcome(self.episode_id)
        except TimeoutError as error:
            raise CallTooLate(self.episode_id, self._wait_s) from error
        if ended.failure is not None:
            raise call_error(self._choice.tool, self.episode_id, ended.failure)
        return ended

    async def leave(self, reason: str) -> None: ...


def call_error(tool: str, call_id: str, failure: ToolFailure) -> errors.DomainError:
    error = ERROR_OF_CALL.get(failure.kind, errors.DomainError)
    return error(
        f"{tool} gave no answer: {failure.message}",
        reason=REASON_OF_FAILURE.get(failure.kind, f"CALL_{failure.kind.name}"),
        call_id=call_id,
        retryable=str(failure.retryable).lower(),
        retry_after_s=failure.retry_after_s,
    )


def _require_direct(order: ListOrder) -> None:
    given = {
        "tools": order.client_tools,
        "response_format": order.answer_schema,
        "seed": order.seed is not None,
    }
    options = {
        "tools": order.tool_names,
        "turn_limit": order.turn_limit,
        "time_limit_s": order.time_limit_s,
        "prompt_mode": order.prompt_mode,
        # One call is what it makes.
        "parallel_calls": order.parallel_calls > 1,
    }
    given |= {f"podium.{name}": value for name, value in options.items()}
    for name, value in given.items():
        if value:
            raise UnsupportedParameter(name, FIX)
