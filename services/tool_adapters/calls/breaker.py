import time
from collections.abc import Callable

FAILURES_TO_OPEN = 5
COOL_DOWN_S = 15.0


class Breaker:
    """Opens after so many calls in a row that found the tool unwell.

    After the cool-down one call is let through as a probe: well closes the breaker,
    unwell opens it for another cool-down.
    """

    def __init__(
        self,
        failures_to_open: int = FAILURES_TO_OPEN,
        cool_down_s: float = COOL_DOWN_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._failures_to_open = failures_to_open
        self._cool_down_s = cool_down_s
        self._clock = clock
        self._failures = 0
        self._opened_at: float | None = None
        self._probing = False

    def lets_pass(self) -> bool:
        """Returns whether a call may be made, which then must `record` or `abandon`."""
        if self._opened_at is None:
            return True
        if self._probing or self.closes_in_s > 0:
            return False
        self._probing = True
        return True

    @property
    def closes_in_s(self) -> float:
        """Seconds until a probe is let through; 0 when calls pass."""
        if self._opened_at is None:
            return 0.0
        return max(0.0, self._opened_at + self._cool_down_s - self._clock())

    def record(self, *, unwell: bool) -> None:
        self._probing = False
        if not unwell:
            self._failures, self._opened_at = 0, None
            return
        self._failures += 1
        if self._failures >= self._failures_to_open:
            self._opened_at = self._clock()

    def abandon(self) -> None:
        """Ends a call that found nothing out, for example a cancelled one."""
        self._probing = False
