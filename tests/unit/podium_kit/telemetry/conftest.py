"""The SDK's tracer in memory: these tests look at the spans that really ended."""

from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from podium_kit.telemetry.episodes import EpisodeIdGenerator


@pytest.fixture(scope="session")
def recorded_spans() -> InMemorySpanExporter:
    # OpenTelemetry lets a process set its provider once.
    exporter = InMemorySpanExporter()
    provider = TracerProvider(id_generator=EpisodeIdGenerator())
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


@pytest.fixture
def spans(recorded_spans: InMemorySpanExporter) -> Iterator[InMemorySpanExporter]:
    recorded_spans.clear()
    yield recorded_spans
    recorded_spans.clear()
