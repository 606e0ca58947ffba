"""Carries the current trace to the server a call goes to (W3C traceparent).

No span of its own: the caller's span around the call and the server's span inside
it already bracket the network, and a third one would double the cost.
"""

from collections.abc import Callable
from typing import Any

import grpc
from opentelemetry import propagate

from podium_kit.telemetry.rpc import tracing_is_on


def client_interceptors() -> list[Any]:
    return [_UnaryPropagation(), _StreamPropagation()] if tracing_is_on() else []


def _with_trace(details: Any) -> Any:
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    metadata = grpc.aio.Metadata(*(details.metadata or ()), *carrier.items())
    return details._replace(metadata=metadata)


class _UnaryPropagation(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[type-arg]
    async def intercept_unary_unary(
        self,
        continuation: Callable[[grpc.aio.ClientCallDetails, Any], Any],
        client_call_details: grpc.aio.ClientCallDetails,
        request: Any,
    ) -> Any:
        return await continuation(_with_trace(client_call_details), request)


class _StreamPropagation(grpc.aio.UnaryStreamClientInterceptor):  # type: ignore[type-arg]
    async def intercept_unary_stream(
        self,
        continuation: Callable[[grpc.aio.ClientCallDetails, Any], Any],
        client_call_details: grpc.aio.ClientCallDetails,
        request: Any,
    ) -> Any:
        return await continuation(_with_trace(client_call_details), request)
