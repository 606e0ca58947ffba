"""Spans of episodes, calls and RPCs."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import grpc
import pytest
import uuid_utils
from google.protobuf.empty_pb2 import Empty
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

from podium_kit import telemetry
from podium_kit.telemetry.content import record_content


@pytest.fixture
def content_recorded() -> Iterator[None]:
    record_content(True)
    yield
    record_content(False)


def test_a_failed_span_carries_the_errors_class_but_not_its_words(
    spans: InMemorySpanExporter,
) -> None:
    with pytest.raises(ValueError, match="my secret plan"), telemetry.span("turn"):
        raise ValueError("my secret plan")
    (ended,) = spans.get_finished_spans()
    assert ended.status.status_code is StatusCode.ERROR
    assert dict(ended.attributes or {}) == {"error.type": "ValueError"}
    assert "my secret plan" not in str(ended.to_json())


def make_model_call() -> None:
    with telemetry.model_call("openai", "small-model") as call:
        call.content(prompt="what is love", answer="a verb")
        call.answered("small-model-2", input_tokens=3, output_tokens=2, finish_reason="stop")


def test_a_model_call_reports_model_tokens_and_finish_reason(spans: InMemorySpanExporter) -> None:
    make_model_call()
    (ended,) = spans.get_finished_spans()
    assert dict(ended.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "small-model",
        "gen_ai.response.model": "small-model-2",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.output_tokens": 2,
    }


@pytest.mark.usefixtures("content_recorded")
def test_prompts_are_recorded_only_when_switched_on(spans: InMemorySpanExporter) -> None:
    make_model_call()
    (ended,) = spans.get_finished_spans()
    asked = json.loads(str((ended.attributes or {})["gen_ai.input.messages"]))
    assert asked == [{"role": "user", "parts": [{"type": "text", "content": "what is love"}]}]


def make_tool_call(failure: str = "") -> None:
    with telemetry.tool_call("calculator") as call:
        call.returned("e/1/tool/0", '{"expression": "6*7"}', "42", failure)


def test_a_tool_call_is_named_after_its_tool_and_holds_no_arguments(
    spans: InMemorySpanExporter,
) -> None:
    make_tool_call(failure="timeout")
    (ended,) = spans.get_finished_spans()
    assert ended.name == "execute_tool calculator"
    assert ended.status.status_code is StatusCode.ERROR
    assert dict(ended.attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "calculator",
        "gen_ai.tool.call.id": "e/1/tool/0",
        "error.type": "timeout",
    }


@pytest.mark.usefixtures("content_recorded")
def test_arguments_and_results_are_recorded_only_when_switched_on(
    spans: InMemorySpanExporter,
) -> None:
    make_tool_call()
    found = spans.get_finished_spans()[0].attributes or {}
    assert found["gen_ai.tool.call.arguments"] == '{"expression": "6*7"}'
    assert found["gen_ai.tool.call.result"] == "42"


def make_episode_id() -> str:
    return str(uuid_utils.uuid7())


def make_ended(
    episode_id: str, started_at: datetime, stop_reason: str = "answered"
) -> telemetry.EndedEpisode:
    return telemetry.EndedEpisode(
        id=episode_id,
        started_at=started_at,
        agent="small",
        user="ada",
        stop_reason=stop_reason,
        task="my secret task",
        answer="my secret answer",
        input_tokens=30,
        output_tokens=7,
        cost="0.0001",
        currency="USD",
    )


def only(spans: InMemorySpanExporter) -> ReadableSpan:
    (ended,) = spans.get_finished_spans()
    return ended


def context_of(span: ReadableSpan) -> SpanContext:
    context = span.get_span_context()
    assert context is not None
    return context


def test_a_span_inside_belongs_to_the_trace_that_is_the_episodes_id(
    spans: InMemorySpanExporter,
) -> None:
    episode_id = make_episode_id()
    with telemetry.episode_context(episode_id), telemetry.span("turn"):
        pass
    assert context_of(only(spans)).trace_id == UUID(episode_id).int


def test_two_processes_that_know_the_id_share_one_parent(spans: InMemorySpanExporter) -> None:
    episode_id = make_episode_id()
    for _ in range(2):
        with telemetry.episode_context(episode_id), telemetry.span("turn"):
            pass
    parents = {span.parent.span_id for span in spans.get_finished_spans() if span.parent}
    assert parents == {UUID(episode_id).int & (2**64 - 1)}


def test_joining_a_trace_one_is_already_in_keeps_the_nearer_parent(
    spans: InMemorySpanExporter,
) -> None:
    episode_id = make_episode_id()
    with (
        telemetry.episode_context(episode_id),
        telemetry.span("outer") as outer,
        telemetry.episode_context(episode_id),
        telemetry.span("inner"),
    ):
        pass
    inner = spans.get_finished_spans()[0]
    assert inner.parent is not None
    assert inner.parent.span_id == outer.get_span_context().span_id


def test_the_context_ends_where_it_ends(spans: InMemorySpanExporter) -> None:
    with telemetry.episode_context(make_episode_id()):
        pass
    with telemetry.span("later"):
        pass
    assert only(spans).parent is None


def test_the_recorded_episode_is_the_root_that_its_spans_point_at(
    spans: InMemorySpanExporter,
) -> None:
    episode_id, started_at = make_episode_id(), datetime.now(UTC) - timedelta(seconds=5)
    with telemetry.episode_context(episode_id), telemetry.span("turn"):
        pass
    telemetry.record_episode(make_ended(episode_id, started_at))
    child, root = spans.get_finished_spans()
    assert root.parent is None
    assert child.parent is not None
    assert context_of(root).trace_id == child.parent.trace_id
    assert context_of(root).span_id == child.parent.span_id
    assert root.start_time == int(started_at.timestamp() * 1e9)


def test_the_root_says_what_an_agents_span_says_and_no_words(spans: InMemorySpanExporter) -> None:
    episode_id = make_episode_id()
    telemetry.record_episode(make_ended(episode_id, datetime.now(UTC), stop_reason="failed"))
    root = only(spans)
    assert root.name == "invoke_agent small" and not root.status.is_ok
    assert dict(root.attributes or {}) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "podium",
        "gen_ai.agent.name": "small",
        "gen_ai.conversation.id": episode_id,
        "gen_ai.usage.input_tokens": 30,
        "gen_ai.usage.output_tokens": 7,
        "user.id": "ada",
        "podium.stop_reason": "failed",
        "podium.cost.amount": "0.0001",
        "podium.cost.currency": "USD",
    }


def test_an_id_that_is_no_uuid_is_rejected_by_name() -> None:
    with (
        pytest.raises(telemetry.NotAnEpisodeId, match="episode id 'tuesday' is not a UUID"),
        telemetry.episode_context("tuesday"),
    ):
        pass


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
