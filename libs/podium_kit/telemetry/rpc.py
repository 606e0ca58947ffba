"""Server spans and durations of gRPC calls.

Own code instead of opentelemetry-instrumentation-grpc, which writes the stack trace
of every failed call onto its span and costs twice as much: docs/adr/0006.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

import grpc
from opentelemetry import metrics, propagate, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanKind, Status, StatusCode

from podium_kit.telemetry.handlers import AroundCalls, Context

# The caller's mistakes are not the server's errors (OpenTelemetry's RPC conventions).
SERVER_FAULTS = {
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DATA_LOSS,
}
STATUS_BY_NUMBER = {code.value[0]: code for code in grpc.StatusCode}


def server_interceptors() -> list[Any]:
    """Returns the first interceptors of a server; none when both traces and metrics are off."""
    return [TracingInterceptor()] if tracing_is_on() or metrics_are_on() else []


def tracing_is_on() -> bool:
    """Returns whether `configure` (or a test) has installed the SDK's tracer provider."""
    return isinstance(trace.get_tracer_provider(), TracerProvider)


def metrics_are_on() -> bool:
    return isinstance(metrics.get_meter_provider(), MeterProvider)


class TracingInterceptor(AroundCalls):
    """Wraps every handler in a span that continues the caller's trace, and measures it.

    Without traces the span is OpenTelemetry's empty one and only the duration is recorded.
    """

    def __init__(self) -> None:
        super().__init__()
        self._tracer = trace.get_tracer(__name__)
        self._duration_s = metrics.get_meter(__name__).create_histogram(
            "rpc.server.call.duration", "s", "time from request to last response"
        )

    @asynccontextmanager
    async def around(self, method: str, context: Context, request: Any) -> AsyncIterator[None]:
        started = perf_counter()
        service, _, name = method.partition("/")
        attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": name}
        parent = propagate.extract(dict(context.invocation_metadata() or ()))
        with self._tracer.start_as_current_span(
            method,
            parent,
            SpanKind.SERVER,
            attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as current:
            raised = True
            try:
                yield
                raised = False
            finally:
                code = _status(context, raised)
                current.set_attribute("rpc.grpc.status_code", code.value[0])
                if code in SERVER_FAULTS:
                    current.set_status(Status(StatusCode.ERROR))
                labels = {**attributes, "rpc.grpc.status_code": code.value[0]}
                self._duration_s.record(perf_counter() - started, labels)


def _status(context: Context, raised: bool) -> grpc.StatusCode:
    """The status the handler chose, or what gRPC makes of its silence."""
    # The stubs promise a StatusCode; grpc.aio gives its number.
    code: Any = context.code()
    chosen = code if isinstance(code, grpc.StatusCode) else STATUS_BY_NUMBER.get(code)
    if raised and chosen in (None, grpc.StatusCode.OK):
        return grpc.StatusCode.CANCELLED if context.cancelled() else grpc.StatusCode.UNKNOWN
    return chosen or grpc.StatusCode.OK
