"""A call through a real channel continues the caller's trace."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from google.protobuf.empty_pb2 import Empty
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from podium_kit import telemetry

SERVICE = "podium.test.v1.EchoService"
Context = grpc.aio.ServicerContext[Any, Any]


async def answer(request: Empty, context: Context) -> Empty:
    return request


async def reject(request: Empty, context: Context) -> Empty:
    await context.abort(grpc.StatusCode.NOT_FOUND, "no such echo")


async def break_down(request: Empty, context: Context) -> Empty:
    raise RuntimeError("my secret plan")


async def watch(request: Empty, context: Context) -> AsyncIterator[Empty]:
    for _ in range(3):
        yield request


def handlers() -> Any:
    codecs: dict[str, Any] = {
        "request_deserializer": Empty.FromString,
        "response_serializer": Empty.SerializeToString,
    }
    unary = {"Answer": answer, "Reject": reject, "BreakDown": break_down}
    methods = {
        name: grpc.unary_unary_rpc_method_handler(behaviour, **codecs)
        for name, behaviour in unary.items()
    }
    methods["Watch"] = grpc.unary_stream_rpc_method_handler(watch, **codecs)
    return grpc.method_handlers_generic_handler(SERVICE, methods)


@asynccontextmanager
async def echo_channel() -> AsyncIterator[grpc.aio.Channel]:
    server = grpc.aio.server(interceptors=telemetry.server_interceptors())
    server.add_generic_rpc_handlers((handlers(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    interceptors = telemetry.client_interceptors()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", interceptors=interceptors) as channel:
        yield channel
    await server.stop(1)


async def call(channel: grpc.aio.Channel, method: str) -> None:
    stub: Any = channel.unary_unary(
        f"/{SERVICE}/{method}",
        request_serializer=Empty.SerializeToString,
        response_deserializer=Empty.FromString,
    )
    await stub(Empty(), timeout=5)


async def server_span(spans: InMemorySpanExporter) -> ReadableSpan:
    """The server may end its span a moment after the client has its answer."""
    while True:
        for span in spans.get_finished_spans():
            if span.kind is SpanKind.SERVER:
                return span
        await asyncio.sleep(0.005)


async def test_the_servers_span_is_a_child_of_the_callers(spans: InMemorySpanExporter) -> None:
    async with echo_channel() as channel:
        with telemetry.span("turn") as caller:
            await call(channel, "Answer")
        served = await server_span(spans)
    assert served.name == f"{SERVICE}/Answer"
    assert served.parent is not None
    assert served.parent.span_id == caller.get_span_context().span_id
    assert (served.attributes or {})["rpc.grpc.status_code"] == 0


async def test_a_callers_mistake_is_not_the_servers_error(spans: InMemorySpanExporter) -> None:
    async with echo_channel() as channel:
        with pytest.raises(grpc.aio.AioRpcError, match="no such echo"):
            await call(channel, "Reject")
        served = await server_span(spans)
    assert (served.attributes or {})["rpc.grpc.status_code"] == grpc.StatusCode.NOT_FOUND.value[0]
    assert served.status.status_code is StatusCode.UNSET


async def test_a_breakdown_is_an_error_whose_words_stay_out_of_the_trace(
    spans: InMemorySpanExporter,
) -> None:
    async with echo_channel() as channel:
        with pytest.raises(grpc.aio.AioRpcError):
            await call(channel, "BreakDown")
        served = await server_span(spans)
    assert served.status.status_code is StatusCode.ERROR
    assert "my secret plan" not in str(served.to_json())


async def test_a_stream_is_one_span_in_the_callers_trace(spans: InMemorySpanExporter) -> None:
    async with echo_channel() as channel:
        stub: Any = channel.unary_stream(
            f"/{SERVICE}/Watch",
            request_serializer=Empty.SerializeToString,
            response_deserializer=Empty.FromString,
        )
        with telemetry.span("turn") as caller:
            received = [response async for response in stub(Empty(), timeout=5)]
        served = await server_span(spans)
    assert len(received) == 3
    assert served.parent is not None
    assert served.parent.span_id == caller.get_span_context().span_id
