"""Errors of activities, as Temporal retries them.

Slow is not dead: what is away or stalls is asked again until the episode's own deadline. A fault
of ours would be the same at every attempt, so it ends what it meets again and again.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from cachetools import LRUCache
from temporalio import activity
from temporalio.exceptions import ApplicationError

from podium_kit.rpc.errors import (
    Aborted,
    DeadlineExceeded,
    DomainError,
    InternalError,
    ResourceExhausted,
    Unavailable,
)

log = logging.getLogger(__name__)

# Errors that pass by themselves; any other is the same at the next attempt.
TRANSIENT = (Unavailable, DeadlineExceeded, ResourceExhausted, Aborted)
FAULTS_MAX = 50
# By what met them, in this process. Attempts do not count them: an outage makes many.
_faults: LRUCache[str, int] = LRUCache(10_000)


@contextmanager
def activity_errors() -> Iterator[None]:
    """Raises errors as ApplicationError: only what passes by itself is tried again, and when its
    source asks.

    Without their causes: Temporal would store the words of libraries, and drop it all when they
    are long.
    """
    try:
        yield
    except DomainError as error:
        raise _application_error(error) from None
    except Exception:
        log.exception("internal error in activity %s", activity.info().activity_type)
        raise _application_error(InternalError()) from None


def _application_error(error: DomainError) -> ApplicationError:
    transient = isinstance(error, TRANSIENT)
    if isinstance(error, InternalError):
        info = activity.info()
        transient = faults_of(f"{info.workflow_run_id}/{info.activity_id}") < FAULTS_MAX
    delay_s = error.retry_after_s
    return ApplicationError(
        error.message,
        type=error.reason,
        non_retryable=not transient,
        next_retry_delay=None if delay_s is None else timedelta(seconds=delay_s),
    )


def faults_of(name: str) -> int:
    """How many faults this process has met at something, with the one that is met now."""
    _faults[name] = _faults.get(name, 0) + 1
    return _faults[name]
