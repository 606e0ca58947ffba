"""Waiting for a part of the platform that is away while it is filled."""

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

PAUSE_S, PATIENCE_S = 1.0, 120.0


class PatientGateway(Gateway):
    """Sends a request again that met a part of the platform which is away."""

    async def call(self, *arguments: Any, **named: Any) -> dict[str, Any]:
        return await patiently(super().call, *arguments, **named)


async def patiently(work: Callable[P, Awaitable[R]], *arguments: P.args, **named: P.kwargs) -> R:
    """What `work` returns, done again while something that it needs is away, for two minutes.

    Only for work that may be done twice. Raises what it raises.
    """
    again = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception(is_away),
        wait=tenacity.wait_fixed(PAUSE_S),
        stop=tenacity.stop_after_delay(PATIENCE_S),
        before_sleep=_say,
        reraise=True,
    )
    return await again(work, *arguments, **named)


def is_away(error: BaseException) -> bool:
    """Returns whether the error passes once every process answers."""
    if isinstance(error, Rejected):
        return error.temporary
    lost = (Unreachable, httpx.TransportError, asyncpg.PostgresConnectionError, ConnectionError)
    return isinstance(error, lost)


def _say(state: tenacity.RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    cause = error.cause if isinstance(error, UserError) else type(error).__name__
    log.warning("filling the platform waits: %s", cause)
