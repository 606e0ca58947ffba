"""Streams end in the task of their call, also when their client has gone.

grpc.aio drops the generator of a cancelled call; the garbage collector then closes it
in another task, where neither the caller's identity nor the current span can be reset.
"""

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import grpc

from podium_kit.telemetry.handlers import Context, Handler


class ClosingInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[type-arg,misc,unused-ignore]
    """Closes every response generator in the call's own task; put it first.

    What the interceptors after it make of a method's handler is kept: they do so once per method.
    """

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[str, Handler] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        method = handler_call_details.method
        if method not in self._kept:
            handler = await continuation(handler_call_details)
            if handler is None:
                return handler  # anybody may make names of methods up
            self._kept[method] = _closed(handler)
        return self._kept[method]


def _closed(handler: Handler) -> Handler:
    if not inspect.isasyncgenfunction(handler.unary_stream):
        return handler
    return grpc.unary_stream_rpc_method_handler(
        _closing(handler.unary_stream),
        request_deserializer=handler.request_deserializer,
        response_serializer=handler.response_serializer,
    )


def _closing(behaviour: Callable[..., AsyncGenerator[Any]]) -> Callable[..., Any]:
    async def written(request: Any, context: Context) -> None:
        async with aclosing(behaviour(request, context)) as responses:
            async for response in responses:
                await context.write(response)

    return written
