"""Anyone who knows an episode's id is in its trace."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
import uuid_utils
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext

from podium_kit import telemetry


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
