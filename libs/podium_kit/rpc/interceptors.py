"""Interceptors around every RPC: identity, access, bounds of fields, deadline, errors as status.

This is the one place that knows gRPC status codes and the one broad `except`: a lost
connection or a timeout of something the service needs is Unavailable, as is a lack of memory,
threads or files; any other unknown error says "internal error" outside. All keep their stack
traces inside.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from podium_kit.limits.time_limit import is_shortage
from podium_kit.rpc.access import require_access, require_allowed
from podium_kit.rpc.bounds import require_bounds
from podium_kit.rpc.errors import (
    DeadlineExceeded,
    DependencyAway,
    DomainError,
    InternalError,
    ShortOfResources,
    Unauthenticated,
)
from podium_kit.rpc.identity import acting_as
from podium_kit.rpc.status import domain_error_from, status_of
from podium_kit.rpc.texts import require_no_nul, takes_any_characters
from podium_kit.rpc.tokens import TokenVerifier
from podium_kit.telemetry.handlers import AroundCalls, Context

log = logging.getLogger(__name__)

DEFAULT_DEADLINE_S = 600.0


class GuardInterceptor(AroundCalls):
    """Runs every call as its caller, if that caller may, within a deadline, with mapped errors."""

    def __init__(
        self, verifier: TokenVerifier, allowed_clients: frozenset[str] | None = None
    ) -> None:
        super().__init__()
        self._verifier = verifier
        self._allowed_clients = allowed_clients

    @asynccontextmanager
    async def around(self, method: str, context: Context, request: Any) -> AsyncIterator[None]:
        try:
            if self._allowed_clients is not None:
                require_allowed(context, self._allowed_clients)
            token = bearer_token(context)
            with acting_as(self._verifier.verify(token), token):
                require_access(method)
                if not takes_any_characters(method):
                    require_no_nul(request)
                require_bounds(request)
                if context.time_remaining() is not None:
                    yield  # gRPC itself ends the call
                else:
                    async with _deadline():
                        yield
        except DomainError as error:
            await context.abort(*status_of(error))
        except (asyncio.CancelledError, grpc.aio.AbortError):
            raise
        except grpc.aio.AioRpcError as error:
            log.exception("a call of another service failed")
            await context.abort(*status_of(domain_error_from(error)))
        except (ConnectionError, TimeoutError):
            log.exception("a dependency does not answer")
            await context.abort(*status_of(DependencyAway()))
        except Exception as error:
            short = is_shortage(error)
            log.exception("short of resources" if short else "internal error")
            await context.abort(*status_of(ShortOfResources() if short else InternalError()))


@asynccontextmanager
async def _deadline() -> AsyncIterator[None]:
    """Ends calls whose client set no deadline."""
    try:
        async with asyncio.timeout(DEFAULT_DEADLINE_S) as limit:
            yield
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise DeadlineExceeded(f"no answer within {DEFAULT_DEADLINE_S:.0f} s") from error


def bearer_token(context: Context) -> str:
    for key, value in context.invocation_metadata() or ():
        if key == "authorization" and str(value).startswith("Bearer "):
            return str(value)[len("Bearer ") :]
    raise Unauthenticated("this call carries no internal token")
