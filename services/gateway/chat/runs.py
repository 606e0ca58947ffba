import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Protocol

from gateway.chat.catalogue import Choice
from gateway.chat.outcomes import CUT_SHORT, ERROR_OF_FAILURE, REASON_OF_FAILURE, has_answer
from gateway.episode_ids import EpisodeId
from gateway.errors import (
    AnswerMadeAgain,
    AnswerTooLate,
    CallMadeAgain,
    CallTooLate,
    UnsupportedParameter,
    WatchLost,
)
from gateway.models import (
    AnswerPart,
    EmbeddingOrder,
    ListOrder,
    Outcome,
    ProgressNote,
    ToolResults,
    Vectors,
)
from podium_kit import telemetry
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.rpc import errors
from podium_kit.rpc.errors import DomainError, Unavailable

log = logging.getLogger(__name__)


Progress = ProgressNote | AnswerPart


class Run(Protocol):
    @property
    def episode_id(self) -> str: ...
    @property
    def answered_turn(self) -> int: ...
    async def start(self, order: ListOrder) -> None: ...
    def events(
        self, *, with_calls: bool = False, with_parts: bool = False, end_only: bool = False
    ) -> AsyncIterator[Progress | Outcome]: ...
    async def outcome(self, *, with_calls: bool = False) -> Outcome: ...
    async def leave(self, reason: str) -> None: ...


Event = Progress | Outcome | DomainError


async def merged(
    runs: Sequence[Run], *, with_parts: bool = False, end_only: bool = False
) -> AsyncIterator[tuple[int, Event]]:
    """Merges the events of runs, by index; each run ends with an outcome or an error."""
    events: asyncio.Queue[tuple[int, Event]] = asyncio.Queue()
    following = [
        asyncio.create_task(
            _follow(index, run.events(with_parts=with_parts, end_only=end_only), events)
        )
        for index, run in enumerate(runs)
    ]
    try:
        running = len(following)
        while running:
            index, event = await events.get()
            running -= not isinstance(event, Progress)
            yield index, event
    finally:
        for task in following:
            task.cancel()


async def _follow(
    index: int, source: AsyncIterator[Event], events: asyncio.Queue[tuple[int, Event]]
) -> None:
    try:
        async for event in source:
            events.put_nowait((index, event))
    except DomainError as error:
        events.put_nowait((index, error))


class EpisodeRunner(Protocol):
    async def start(self, episode_id: str, order: ListOrder) -> None: ...
    async def count_tokens(self, order: ListOrder) -> int: ...
    async def answer(self, results: ToolResults) -> None: ...
    def events(
        self,
        episode_id: str,
        answered_turn: int = 0,
        *,
        with_calls: bool = False,
        with_parts: bool = False,
        end_only: bool = False,
    ) -> AsyncIterator[Progress | Outcome]: ...
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
        self._may_pause = True
        self.answered_turn = answered_turn

    @property
    def episode_id(self) -> str:
        return self._episode.value

    async def start(self, order: ListOrder) -> None:
        self._may_pause = bool(order.client_tools)
        with telemetry.episode_context(self.episode_id), telemetry.span("gateway.start_episode"):
            await self._episodes.start(self.episode_id, order)

    async def go_on(self, results: ToolResults) -> None:
        await self._episodes.answer(results)

    async def outcome(self, *, with_calls: bool = False) -> Outcome:
        async for event in self.events(with_calls=with_calls, end_only=not with_calls):
            if isinstance(event, Outcome):
                return event
        raise AssertionError("a watch ends with an outcome or an error")

    async def events(
        self,
        *,
        with_calls: bool = False,
        with_parts: bool = False,
        parts_bind: bool = True,
        end_only: bool = False,
    ) -> AsyncIterator[Progress | Outcome]:
        """Yields progress, and the outcome last: its answer begins with the parts if they bind.

        `end_only` leaves progress out where the episode cannot pause for calls of its client.

        Raises AnswerTooLate, WatchLost, AnswerMadeAgain.
        """
        deadline = time.monotonic() + self._wait_s
        source = self._episodes.events(
            self.episode_id,
            self.answered_turn,
            with_calls=with_calls,
            with_parts=with_parts,
            end_only=end_only and not self._may_pause,
        )
        shown = list[AnswerPart]()
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
            if isinstance(event, AnswerPart):
                shown.append(event)
            elif isinstance(event, Outcome) and shown:
                event = self._after(shown, event, parts_bind)
            yield event

    def _after(self, shown: Sequence[AnswerPart], outcome: Outcome, parts_bind: bool) -> Outcome:
        """The outcome of an answer that was shown; one that a limit cut short is what was shown."""
        if not outcome.answer and outcome.stop_reason in CUT_SHORT:
            return replace(outcome, answer="".join(part.text for part in shown))
        if parts_bind and has_answer(outcome) and not begins_with(outcome, shown):
            raise AnswerMadeAgain(self.episode_id)
        return outcome

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


class DirectAnswers(Protocol):
    def events(self) -> AsyncIterator[AnswerPart | Outcome]: ...
    def leave(self) -> None: ...


class MadeVectors(Protocol):
    async def vectors(self) -> Vectors: ...


class DirectCallRunner(Protocol):
    async def start(
        self, call_id: str, order: ListOrder, tool: str, alias: str, *, ends_with_caller: bool
    ) -> DirectAnswers: ...
    async def embed(self, call_id: str, order: EmbeddingOrder) -> MadeVectors: ...


class DirectRun:
    """A call of a model. A client that goes away ends the model's work, unless it named the call,
    which is then made to its end."""

    answered_turn = 0

    def __init__(
        self,
        calls: DirectCallRunner,
        call: EpisodeId,
        choice: Choice,
        wait_s: float,
        *,
        ends_with_caller: bool,
    ) -> None:
        self._calls = calls
        self._call = call
        self._choice = choice
        self._wait_s = wait_s
        self._ends_with_caller = ends_with_caller and not call.chosen_by_caller
        self._answer: DirectAnswers | None = None

    @property
    def episode_id(self) -> str:
        return self._call.value

    async def start(self, order: ListOrder) -> None:
        _require_direct(order)
        tool, alias = self._choice.tool, self._choice.alias
        with telemetry.episode_context(self.episode_id), telemetry.span("gateway.start_episode"):
            self._answer = await self._calls.start(
                self.episode_id, order, tool, alias, ends_with_caller=self._ends_with_caller
            )

    async def events(
        self, *, with_calls: bool = False, with_parts: bool = False, end_only: bool = False
    ) -> AsyncIterator[Progress | Outcome]:
        assert self._answer is not None, "a run is started before it is followed"
        deadline = time.monotonic() + self._wait_s
        events, parts = self._answer.events(), list[AnswerPart]()
        while True:
            try:
                event = await asyncio.wait_for(anext(events), deadline - time.monotonic())
            except TimeoutError as error:
                raise CallTooLate(self.episode_id, self._wait_s) from error
            if isinstance(event, AnswerPart):
                parts.append(event)
            elif isinstance(event, Outcome) and event.failure is not None:
                raise call_error(self._choice.tool, self.episode_id, event.failure)
            elif isinstance(event, Outcome) and not begins_with(event, parts):
                raise CallMadeAgain(self.episode_id)
            yield event
            if isinstance(event, Outcome):
                return

    async def outcome(self, *, with_calls: bool = False) -> Outcome:
        async for event in self.events():
            if isinstance(event, Outcome):
                return event
        raise AssertionError("a call ends with an outcome or an error")

    async def leave(self, reason: str) -> None:
        if self._answer is not None:
            self._answer.leave()


def begins_with(outcome: Outcome, parts: Sequence[AnswerPart]) -> bool:
    """Returns whether an answer begins with its parts; one that was made again does not."""
    arguments: dict[int, str] = {}
    for piece in (piece for part in parts for piece in part.calls):
        arguments[piece.index] = arguments.get(piece.index, "") + piece.arguments
    texts = [call.arguments for call in outcome.client_calls]
    calls = zip(texts, [arguments[index] for index in sorted(arguments)], strict=False)
    return (
        outcome.answer.startswith("".join(part.text for part in parts))
        and len(texts) >= len(arguments)
        and all(text.startswith(begun) for text, begun in calls)
    )


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
    options = {
        "tools": order.tool_names,
        "turn_limit": order.turn_limit,
        "time_limit_s": order.time_limit_s,
        "prompt_mode": order.prompt_mode,
        # One call is what it makes.
        "parallel_calls": order.parallel_calls > 1,
    }
    for name, value in options.items():
        if value:
            raise UnsupportedParameter(f"podium.{name}", FIX)
