"""Errors of activities, as Temporal retries them."""

from datetime import timedelta

from temporalio.exceptions import ApplicationError

from podium_kit.rpc.errors import Aborted, DomainError, ResourceExhausted, Unavailable

# Errors that pass by themselves; any other is the same at the next attempt.
TRANSIENT = (Unavailable, ResourceExhausted, Aborted)


def activity_error(error: DomainError) -> ApplicationError:
    """The error as Temporal retries it: only what passes by itself, and when its source asks."""
    delay_s = error.retry_after_s
    return ApplicationError(
        error.message,
        type=error.reason,
        non_retryable=not isinstance(error, TRANSIENT),
        next_retry_delay=None if delay_s is None else timedelta(seconds=delay_s),
    )
