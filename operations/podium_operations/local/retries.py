import logging
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

import asyncpg
import httpx
import tenacity

from podium_kit.client.errors import UserError
from podium_kit.client.gateway import Gateway, Unreachable
from podium_kit.client.rejections import Rejected

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

WAIT_S, TIME_LIMIT_S = 1.0, 120.0


class RetryingGateway(Gateway):
    """A gateway client that retries requests while a part of the platform is away."""

    async def call(self, *arguments: Any, **named: Any) -> dict[str, Any]:
        return await retry_while_away(super().call, *arguments, **named)


async def retry_while_away(
    work: Callable[P, Awaitable[R]], *arguments: P.args, **named: P.kwargs
) -> R:
    """Retries idempotent work for two minutes while something that it needs is away."""
    retrying = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception(is_away),
        wait=tenacity.wait_fixed(WAIT_S),
        stop=tenacity.stop_after_delay(TIME_LIMIT_S),
        before_sleep=_log_wait,
        reraise=True,
    )
    return await retrying(work, *arguments, **named)


def is_away(error: BaseException) -> bool:
    if isinstance(error, Rejected):
        return error.temporary
    lost = (Unreachable, httpx.TransportError, asyncpg.PostgresConnectionError, ConnectionError)
    return isinstance(error, lost)


def _log_wait(state: tenacity.RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    cause = error.cause if isinstance(error, UserError) else type(error).__name__
    log.warning("filling the platform waits: %s", cause)
