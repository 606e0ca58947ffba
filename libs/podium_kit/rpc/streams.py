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
    """Closes every response generator in the call's own task; put it first."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        handler = await continuation(handler_call_details)
        if handler is None or not inspect.isasyncgenfunction(handler.unary_stream):
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
