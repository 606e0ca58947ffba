import logging
from collections.abc import Callable

import tenacity

from podium_kit.client.errors import UserError

log = logging.getLogger(__name__)

# A line now and then: each attempt would bury what matters.
ATTEMPTS_PER_LINE = 10


def saying(text: str) -> Callable[[tenacity.RetryCallState], None]:
    def say(state: tenacity.RetryCallState) -> None:
        if state.attempt_number % ATTEMPTS_PER_LINE == 1:
            error = state.outcome.exception() if state.outcome else None
            log.info("%s%s", text, f": {error.cause}" if isinstance(error, UserError) else "")

    return say
