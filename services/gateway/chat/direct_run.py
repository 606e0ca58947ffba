"""A call of a model without an episode, as requests wait for episodes."""

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

from gateway.chat.catalogue import Choice
from gateway.chat.outcomes import ERROR_OF_FAILURE, REASON_OF_FAILURE
from gateway.episode_ids import EpisodeId
from gateway.errors import CallTooLate, UnsupportedParameter
from gateway.models import EmbeddingOrder, EpisodeOrder, Outcome, ProgressNote, Vectors
from podium_kit import telemetry
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.rpc import errors

FIX = "only an orchestrator honours it, and `model` names a tool; leave it out"
# The provider's words on a request are the caller's to correct; what it broke off is not.
ERROR_OF_CALL: dict[FailureKind, type[errors.DomainError]] = {
    **ERROR_OF_FAILURE,
    FailureKind.TOOL_ERROR: errors.FailedPrecondition,
    FailureKind.MALFORMED_OUTPUT: errors.Unavailable,
}


class DirectCallRunner(Protocol):
    async def start(self, call_id: str, order: EpisodeOrder, tool: str, alias: str) -> None: ...
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

    async def start(self, order: EpisodeOrder) -> None:
        _require_direct(order)
        tool, alias = self._choice.tool, self._choice.alias
        with telemetry.episode_context(self.episode_id), telemetry.span("gateway.start_episode"):
            await self._calls.start(self.episode_id, order, tool, alias)

    async def events(self) -> AsyncIterator[ProgressNote | Outcome]:
        """The outcome alone. Raises CallTooLate, CallLost, and the error of a call that failed."""
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


def _require_direct(order: EpisodeOrder) -> None:
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
    }
    given |= {f"podium.{name}": value for name, value in options.items()}
    for name, value in given.items():
        if value:
            raise UnsupportedParameter(name, FIX)
