"""Exporters to a collector, over gRPC or HTTP.

Headers, such as those that authenticate, come from OTEL_EXPORTER_OTLP_HEADERS, as everywhere.
"""

from opentelemetry.exporter.otlp.proto.grpc import metric_exporter as grpc_metrics
from opentelemetry.exporter.otlp.proto.grpc import trace_exporter as grpc_traces
from opentelemetry.exporter.otlp.proto.http import metric_exporter as http_metrics
from opentelemetry.exporter.otlp.proto.http import trace_exporter as http_traces
from opentelemetry.sdk.metrics.export import MetricExporter
from opentelemetry.sdk.trace.export import SpanExporter

from podium_kit.telemetry.settings import TelemetrySettings


def span_exporter(settings: TelemetrySettings) -> SpanExporter:
    if settings.otlp_protocol == "grpc":
        return grpc_traces.OTLPSpanExporter(endpoint=settings.otlp_endpoint)
    return http_traces.OTLPSpanExporter(endpoint=_signal(settings, "traces"))


def metric_exporter(settings: TelemetrySettings) -> MetricExporter:
    if settings.otlp_protocol == "grpc":
        return grpc_metrics.OTLPMetricExporter(endpoint=settings.otlp_endpoint)
    return http_metrics.OTLPMetricExporter(endpoint=_signal(settings, "metrics"))


def _signal(settings: TelemetrySettings, signal: str) -> str:
    """Over HTTP every signal has a path of its own."""
    return f"{(settings.otlp_endpoint or '').rstrip('/')}/v1/{signal}"
