"""What happens around every RPC: identity, deadline, and errors mapped to status.

This is the one place that knows gRPC status codes and the one broad `except`:
an unknown error says "internal error" outside and keeps its stack trace inside.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc

from rpckit.errors import DeadlineExceeded, DomainError, Unauthenticated
from rpckit.identity import TokenVerifier, acting_as
from rpckit.status import status_of

log = logging.getLogger(__name__)

Context = grpc.aio.ServicerContext[Any, Any]
Handler = Any  # grpc.RpcMethodHandler, whose stubs cannot be subclassed

# Probes and tools ask these without an identity; they reveal no tenant's data.
OPEN_SERVICES = ("/grpc.health.v1.", "/grpc.reflection.")
DEFAULT_DEADLINE_S = 600.0


@dataclass
class CallGuard:
    """Runs one call as its caller, within a deadline, with mapped errors."""

    verifier: TokenVerifier

    @asynccontextmanager
    async def __call__(self, context: Context) -> AsyncIterator[None]:
        try:
            token = bearer_token(context)
            with acting_as(self.verifier.verify(token), token):
                async with _deadline(context):
                    yield
        except DomainError as error:
            status = status_of(error)
            await context.abort(status.code, status.details, status.trailing_metadata)
        except (asyncio.CancelledError, grpc.aio.AbortError):
            raise
        except Exception:
            log.exception("internal error")
            await context.abort(grpc.StatusCode.INTERNAL, "internal error")


@asynccontextmanager
async def _deadline(context: Context) -> AsyncIterator[None]:
    """Ends calls whose client set no deadline; gRPC itself ends the others."""
    if context.time_remaining() is not None:
        yield
        return
    try:
        async with asyncio.timeout(DEFAULT_DEADLINE_S) as limit:
            yield
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise DeadlineExceeded(f"no answer within {DEFAULT_DEADLINE_S:.0f} s") from error


def bearer_token(context: Context) -> str:
    """The internal token of the call. Raises Unauthenticated."""
    for key, value in context.invocation_metadata() or ():
        if key == "authorization" and str(value).startswith("Bearer "):
            return str(value)[len("Bearer ") :]
    raise Unauthenticated("this call carries no internal token")


class GuardInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[type-arg,misc,unused-ignore]
    """Wraps every handler in a CallGuard; wrapped handlers are kept per method."""

    def __init__(self, guard: CallGuard) -> None:
        self._guard = guard
        self._wrapped: dict[str, Handler] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        method = handler_call_details.method or ""
        if method not in self._wrapped:
            handler = await continuation(handler_call_details)
            if handler is None or method.startswith(OPEN_SERVICES):
                return handler
            self._wrapped[method] = self._wrap(handler)
        return self._wrapped[method]

    def _wrap(self, handler: Handler) -> Handler:
        codecs = {
            "request_deserializer": handler.request_deserializer,
            "response_serializer": handler.response_serializer,
        }
        if handler.unary_unary:
            return grpc.unary_unary_rpc_method_handler(self._unary(handler.unary_unary), **codecs)
        if handler.unary_stream:
            return grpc.unary_stream_rpc_method_handler(
                self._stream(handler.unary_stream), **codecs
            )
        # An unguarded shape would be a way around authentication.
        raise NotImplementedError("client streaming methods have no guard yet")

    def _unary(self, behaviour: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def guarded(request: Any, context: Context) -> Any:
            async with self._guard(context):
                return await behaviour(request, context)

        return guarded

    def _stream(self, behaviour: Callable[..., AsyncGenerator[Any]]) -> Callable[..., Any]:
        async def guarded(request: Any, context: Context) -> AsyncIterator[Any]:
            async with self._guard(context), aclosing(behaviour(request, context)) as responses:
                async for response in responses:
                    yield response

        return guarded
