from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from gateway.errors import BudgetExhausted, EpisodeCancelled
from gateway.models import Outcome, StopReason
from podium_kit.failures import FailureKind
from podium_kit.rpc import errors

FinishReason = Literal["stop", "length", "tool_calls", "content_filter"]
# A limit cut the work short, as max_tokens would: what there is so far is the answer.
CUT_SHORT = frozenset(
    {
        StopReason.TURN_LIMIT,
        StopReason.OUTPUT_LIMIT,
        StopReason.BUDGET_EXHAUSTED,
        StopReason.DEADLINE,
    }
)
ERROR_OF_FAILURE: dict[FailureKind, type[errors.DomainError]] = {
    FailureKind.INVALID_ARGUMENTS: errors.InvalidArgument,
    FailureKind.OUTPUT_TOO_LARGE: errors.InvalidArgument,
    FailureKind.CONTEXT_TOO_LONG: errors.InvalidArgument,
    FailureKind.BLOCKED: errors.InvalidArgument,
    FailureKind.LIMIT_EXCEEDED: errors.FailedPrecondition,
    FailureKind.NOT_FOUND: errors.NotFound,
    FailureKind.PERMISSION_DENIED: errors.PermissionDenied,
    FailureKind.DENIED_BY_POLICY: errors.PermissionDenied,
    FailureKind.BUDGET_EXHAUSTED: BudgetExhausted,
    FailureKind.RATE_LIMITED: errors.ResourceExhausted,
    FailureKind.UNAVAILABLE: errors.Unavailable,
    FailureKind.TIMEOUT: errors.DeadlineExceeded,
}

# Clients know these codes: they shorten their messages, or do not send them again.
REASON_OF_FAILURE = {
    FailureKind.CONTEXT_TOO_LONG: "CONTEXT_LENGTH_EXCEEDED",
    FailureKind.BLOCKED: "CONTENT_FILTER",
}


def finish_reason(outcome: Outcome) -> FinishReason:
    """ "stop" for an answer, "length" for work a limit cut short, "tool_calls" for calls that
    the client is to run, "content_filter" for what the model or its provider declined.

    Raises the domain error that says why there is nothing to show.
    """
    if outcome.declined:
        return "content_filter"
    # Calls that a limit cut are not whole.
    if outcome.client_calls and outcome.stop_reason is not StopReason.OUTPUT_LIMIT:
        return "tool_calls"
    if outcome.stop_reason is StopReason.ANSWERED or outcome.stop_sequence:
        return "stop"
    if outcome.stop_reason in CUT_SHORT and outcome.turn_count > 0:
        return "length"
    raise episode_error(outcome)


def has_answer(outcome: Outcome) -> bool:
    return no_answer(outcome) is None


def no_answer(outcome: Outcome) -> errors.DomainError | None:
    try:
        finish_reason(outcome)
    except errors.DomainError as error:
        return error
    return None


def episode_error(outcome: Outcome) -> errors.DomainError:
    if outcome.stop_reason is StopReason.CANCELLED:
        return EpisodeCancelled(outcome.episode_id)
    kind = _failure_kind(outcome)
    reason = outcome.failure.message if outcome.failure else "it was stopped before its first turn"
    return ERROR_OF_FAILURE.get(kind, errors.DomainError)(
        f"episode {outcome.episode_id} ended without an answer ({outcome.stop_reason}): {reason}",
        reason=REASON_OF_FAILURE.get(kind, f"EPISODE_{kind.name}"),
        episode_id=outcome.episode_id,
        retryable=str(outcome.failure is not None and outcome.failure.retryable).lower(),
        retry_after_s=outcome.failure.retry_after_s if outcome.failure else None,
    )


def _failure_kind(outcome: Outcome) -> FailureKind:
    if outcome.failure is not None:
        return outcome.failure.kind
    if outcome.stop_reason is StopReason.DEADLINE:
        return FailureKind.TIMEOUT
    if outcome.stop_reason is StopReason.BUDGET_EXHAUSTED:
        return FailureKind.BUDGET_EXHAUSTED
    return FailureKind.INTERNAL


StopText = Annotated[str, Field(min_length=1)]


def _as_texts(given: Any) -> Any:
    return [given] if isinstance(given, str) else given


StopTexts = Annotated[list[StopText], BeforeValidator(_as_texts), Field(max_length=4)]


def stopped(outcome: Outcome, stops: Sequence[str]) -> Outcome:
    """The outcome with its answer cut before the first of the texts.

    Where two begin at one place, the longer one is what it was cut at.
    """
    found = [(at, -len(stop), stop) for stop in stops if (at := outcome.answer.find(stop)) >= 0]
    if not found:
        return outcome
    at, _, stop = min(found)
    return replace(outcome, answer=outcome.answer[:at], stop_sequence=stop)
