"""Attempts of an activity: whoever makes the next one after a failure may be another worker."""

from collections.abc import Iterator
from contextlib import contextmanager

from temporalio import activity

from episodes.steps.log import StepLogs


@contextmanager
def attempt_at(logs: StepLogs, episode_id: str) -> Iterator[None]:
    """Forgets the log when another attempt follows: what that one sends is not known here.

    None follows one that its workflow cancels. Its end gives back what it had not sent.
    """
    try:
        yield
    except BaseException:
        details = activity.cancellation_details()
        if details is None or not details.cancel_requested:
            logs.forget(episode_id)
        raise
