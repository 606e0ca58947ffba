"""Something around every RPC of a server, written once for every shape of RPC.

It lives here because tracing and the guard of `podium_kit.rpc` both need it.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

import grpc

Context = grpc.aio.ServicerContext[Any, Any]
Handler = Any  # grpc.RpcMethodHandler, whose stubs cannot be subclassed

# Asked every few seconds by probes and by tools; they reveal no tenant's data.
OPEN_SERVICES = ("/grpc.health.v1.", "/grpc.reflection.")


class AroundCalls(grpc.aio.ServerInterceptor):  # type: ignore[type-arg,misc,unused-ignore]
    """Runs every handler inside `around`; wrapped handlers are kept per method."""

    def __init__(self) -> None:
        self._wrapped: dict[str, Handler] = {}

    def around(
        self, method: str, context: Context, request: Any
    ) -> AbstractAsyncContextManager[None]:
        """Surrounds a call; `method` is like "podium.ledger.v1.BudgetService/GetBudget"."""
        raise NotImplementedError

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
            self._wrapped[method] = self._wrap(method.removeprefix("/"), handler)
        return self._wrapped[method]

    def _wrap(self, method: str, handler: Handler) -> Handler:
        codecs = {
            "request_deserializer": handler.request_deserializer,
            "response_serializer": handler.response_serializer,
        }
        if handler.unary_unary:
            unary = self._unary(method, handler.unary_unary)
            return grpc.unary_unary_rpc_method_handler(unary, **codecs)
        if handler.unary_stream:
            stream = self._stream(method, handler.unary_stream)
            return grpc.unary_stream_rpc_method_handler(stream, **codecs)
        # An unwrapped shape would be a way around authentication.
        raise NotImplementedError("client streaming methods cannot be wrapped yet")

    def _unary(
        self, method: str, behaviour: Callable[..., Awaitable[Any]]
    ) -> Callable[..., Awaitable[Any]]:
        async def wrapped(request: Any, context: Context) -> Any:
            async with self.around(method, context, request):
                return await behaviour(request, context)

        return wrapped

    def _stream(
        self, method: str, behaviour: Callable[..., AsyncGenerator[Any]]
    ) -> Callable[..., Any]:
        async def wrapped(request: Any, context: Context) -> AsyncIterator[Any]:
            async with (
                self.around(method, context, request),
                aclosing(behaviour(request, context)) as responses,
            ):
                async for response in responses:
                    yield response

        return wrapped
