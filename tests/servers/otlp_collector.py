"""A collector of OpenTelemetry's protocol, over gRPC and HTTP, that keeps what it is sent.

async with OtlpCollector() as collector:
    ...  # collector.grpc_endpoint, collector.http_endpoint
    spans = collector.spans()
"""

import asyncio
import gzip
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Self

import grpc
import uvicorn
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics_pb
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as trace_grpc
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.trace.v1 import trace_pb2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

PROTOBUF = "application/x-protobuf"


@dataclass(frozen=True)
class CollectedSpan:
    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: str
    failed: bool
    attributes: Mapping[str, Any]


class OtlpCollector(trace_grpc.TraceServiceServicer, metrics_grpc.MetricsServiceServicer):
    def __init__(self, http_path: str = "") -> None:
        self.headers: list[dict[str, str]] = []
        self._spans: list[CollectedSpan] = []
        self._metrics: list[metrics_pb.ExportMetricsServiceRequest] = []
        self._http_path = http_path
        self._stack = AsyncExitStack()
        self.grpc_endpoint = self.http_endpoint = ""

    async def __aenter__(self) -> Self:
        server = grpc.aio.server()
        trace_grpc.add_TraceServiceServicer_to_server(self, server)  # type: ignore[no-untyped-call]
        metrics_grpc.add_MetricsServiceServicer_to_server(self, server)  # type: ignore[no-untyped-call]
        self.grpc_endpoint = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        self._stack.push_async_callback(server.stop, None)
        await self._serve_http()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _serve_http(self) -> None:
        path = self._http_path
        app = Starlette(
            routes=[
                Route(f"{path}/v1/traces", self._posted_traces, methods=["POST"]),
                Route(f"{path}/v1/metrics", self._posted_metrics, methods=["POST"]),
            ]
        )
        http = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", lifespan="off"))
        http.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        serving = asyncio.create_task(http.serve())

        async def stop() -> None:
            http.should_exit = True
            await serving

        self._stack.push_async_callback(stop)
        while not http.started:
            await asyncio.sleep(0.005)
        port = http.servers[0].sockets[0].getsockname()[1]
        self.http_endpoint = f"http://127.0.0.1:{port}{path}"

    async def Export(self, request: Any, context: Any) -> Any:
        self.headers.append({key: str(value) for key, value in context.invocation_metadata()})
        return self._kept(request)

    async def _posted_traces(self, request: Request) -> Response:
        return await self._posted(request, trace_pb.ExportTraceServiceRequest)

    async def _posted_metrics(self, request: Request) -> Response:
        return await self._posted(request, metrics_pb.ExportMetricsServiceRequest)

    async def _posted(self, request: Request, kind: Callable[[], Any]) -> Response:
        self.headers.append(dict(request.headers))
        body = await request.body()
        if request.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        message = kind()
        message.ParseFromString(body)
        return Response(self._kept(message).SerializeToString(), media_type=PROTOBUF)

    def _kept(self, request: Any) -> Any:
        if isinstance(request, trace_pb.ExportTraceServiceRequest):
            self._spans += _spans(request)
            return trace_pb.ExportTraceServiceResponse()
        self._metrics.append(request)
        return metrics_pb.ExportMetricsServiceResponse()

    def spans(self) -> list[CollectedSpan]:
        return list(self._spans)

    def metric_names(self) -> set[str]:
        return {
            metric.name
            for request in self._metrics
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits for something to have arrived; the test's timeout ends it."""
        while not condition():
            await asyncio.sleep(0.05)


def _spans(request: trace_pb.ExportTraceServiceRequest) -> Iterator[CollectedSpan]:
    """Read once, as they arrive: reading them at each poll would keep the server from the rest."""
    for resource in request.resource_spans:
        service = attributes_of(resource.resource.attributes)["service.name"]
        for scope in resource.scope_spans:
            yield from (_collected(service, span) for span in scope.spans)


def _collected(service: str, span: trace_pb2.Span) -> CollectedSpan:
    return CollectedSpan(
        service=service,
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        kind=trace_pb2.Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
        failed=span.status.code == trace_pb2.Status.STATUS_CODE_ERROR,
        attributes=attributes_of(span.attributes),
    )


def attributes_of(given: Any) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in given}


def _value(value: common_pb2.AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind) if kind else None
