"""The policy of retries: which requests are sent again, and after how long."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
SERVER_FAULT = "server_error"


@dataclass(frozen=True)
class RetryPolicy:
    """Exponential backoff with jitter; what the platform asks for goes first."""

    # Repetitions after the first attempt.
    attempts: int = 4
    first_wait_s: float = 0.5
    longest_wait_s: float = 30.0
    # A Retry-After beyond it is left to the caller.
    longest_retry_after_s: float = 60.0

    def wait_s(self, attempt: int, retry_after_s: float | None = None) -> float | None:
        """Seconds before repetition `attempt`, counted from 0; None means not to repeat."""
        if attempt >= self.attempts:
            return None
        if retry_after_s is not None:
            return retry_after_s if retry_after_s <= self.longest_retry_after_s else None
        longest = min(self.longest_wait_s, self.first_wait_s * 2.0**attempt)
        # Clients that failed together do not come back together.
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 no secret


def is_retried(status: int, kind: str, headers: Mapping[str, str]) -> bool:
    """Returns whether the same request may succeed later; the platform's own word on it goes
    first.
    """
    said = headers.get("x-should-retry", "")
    if said in ("true", "false"):
        return said == "true"
    # A conflict between changes, other than an id that is taken.
    return status in RETRIED or (status == 409 and kind == SERVER_FAULT)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds that the answer asks to wait, given as a number or a date; None: not given."""
    given = headers.get("retry-after", "")
    try:
        return max(0.0, float(given))
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(given)
    except (ValueError, OverflowError):
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())
