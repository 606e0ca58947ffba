"""Server spans and durations of gRPC calls.

Own code instead of opentelemetry-instrumentation-grpc, which writes the stack trace
of every failed call onto its span and costs twice as much: docs/adr/0006.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import grpc
from opentelemetry import metrics, propagate, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanKind, Status, StatusCode

Context = grpc.aio.ServicerContext[Any, Any]
Handler = Any  # grpc.RpcMethodHandler, whose stubs cannot be subclassed

# Asked every few seconds by probes; a trace of them tells nothing.
UNTRACED = ("/grpc.health.v1.", "/grpc.reflection.")
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
    """What to put first on a server; nothing when traces are off."""
    return [TracingInterceptor()] if tracing_is_on() else []


def tracing_is_on() -> bool:
    """Whether `configure` (or a test) has installed the SDK's tracer provider."""
    return isinstance(trace.get_tracer_provider(), TracerProvider)


class TracingInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[type-arg,misc,unused-ignore]
    """Wraps every handler in a span that continues the caller's trace."""

    def __init__(self) -> None:
        self._tracer = trace.get_tracer(__name__)
        self._duration_s = metrics.get_meter(__name__).create_histogram(
            "rpc.server.call.duration", "s", "time from request to last response"
        )
        self._wrapped: dict[str, Handler] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        method = handler_call_details.method or ""
        if method not in self._wrapped:
            handler = await continuation(handler_call_details)
            if handler is None or method.startswith(UNTRACED):
                return handler
            self._wrapped[method] = self._wrap(method.removeprefix("/"), handler)
        return self._wrapped[method]

    def _wrap(self, name: str, handler: Handler) -> Handler:
        codecs = {
            "request_deserializer": handler.request_deserializer,
            "response_serializer": handler.response_serializer,
        }
        if handler.unary_unary:
            behaviour = self._unary(name, handler.unary_unary)
            return grpc.unary_unary_rpc_method_handler(behaviour, **codecs)
        if handler.unary_stream:
            behaviour = self._stream(name, handler.unary_stream)
            return grpc.unary_stream_rpc_method_handler(behaviour, **codecs)
        raise NotImplementedError("client streaming methods are not traced yet")

    def _unary(self, name: str, behaviour: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        async def traced(request: Any, context: Context) -> Any:
            with self._call(name, context):
                return await behaviour(request, context)

        return traced

    def _stream(
        self, name: str, behaviour: Callable[..., AsyncIterator[Any]]
    ) -> Callable[..., Any]:
        async def traced(request: Any, context: Context) -> AsyncIterator[Any]:
            with self._call(name, context):
                async for response in behaviour(request, context):
                    yield response

        return traced

    @contextmanager
    def _call(self, name: str, context: Context) -> Iterator[None]:
        started = perf_counter()
        service, _, method = name.partition("/")
        attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method}
        parent = propagate.extract(dict(context.invocation_metadata() or ()))
        with self._tracer.start_as_current_span(
            name,
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
