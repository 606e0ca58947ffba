from collections.abc import Callable

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from podium_kit.telemetry.content import record_content
from podium_kit.telemetry.episodes import EpisodeIdGenerator
from podium_kit.telemetry.logs import log_json
from podium_kit.telemetry.settings import TelemetryMode, TelemetrySettings
from podium_kit.telemetry.span_file import SpanFileExporter

# A kill -9 loses at most this much of a trace.
FLUSH_EVERY_MS = 1_000.0
# The SDK's own buckets are for milliseconds: in seconds every call fell into the first. These are
# OpenTelemetry's for RPC and HTTP, and more, for model calls and for watching a whole episode.
DURATION_BUCKETS_S = (
    *(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0, 160.0, 320.0, 640.0),
)


def configure(service: str, settings: TelemetrySettings) -> Callable[[], None]:
    """Starts logs, traces and metrics of `service`; call the result before exit.

    Raises OSError when the span file's folder or the metrics port is not usable.
    """
    log_json(service, settings.log_level)
    record_content(settings.log_prompts)
    resource = Resource.create({"service.name": service})
    stops = [*_start_traces(service, settings, resource), *_start_metrics(settings, resource)]

    def shutdown() -> None:
        for stop in stops:
            stop()

    return shutdown


def _start_traces(
    service: str, settings: TelemetrySettings, resource: Resource
) -> list[Callable[[], None]]:
    exporter = _span_exporter(service, settings)
    if exporter is None:
        return []
    provider = TracerProvider(resource=resource, id_generator=EpisodeIdGenerator())
    provider.add_span_processor(
        BatchSpanProcessor(exporter, schedule_delay_millis=FLUSH_EVERY_MS, max_queue_size=16_384)
    )
    trace.set_tracer_provider(provider)
    return [provider.shutdown]


def _span_exporter(service: str, settings: TelemetrySettings) -> SpanExporter | None:
    if settings.mode is TelemetryMode.FILE and settings.folder is not None:
        return SpanFileExporter(settings.folder / f"{service}.jsonl", settings.file_bytes_max)
    if settings.mode is TelemetryMode.OTLP:
        from podium_kit.telemetry.otlp import span_exporter

        return span_exporter(settings)
    return None


def _start_metrics(settings: TelemetrySettings, resource: Resource) -> list[Callable[[], None]]:
    readers: list[MetricReader] = []
    stops: list[Callable[[], None]] = []
    if settings.metrics_port is not None:
        from opentelemetry.exporter.prometheus import PrometheusMetricReader
        from prometheus_client import start_http_server

        readers.append(PrometheusMetricReader())
        server, _ = start_http_server(settings.metrics_port, settings.metrics_host)
        stops += [server.shutdown, server.server_close]
    if settings.mode is TelemetryMode.OTLP and settings.otlp_metrics:
        from podium_kit.telemetry.otlp import metric_exporter

        readers.append(PeriodicExportingMetricReader(metric_exporter(settings)))
    if not readers:
        return []
    durations = View(
        instrument_name="*.duration",
        aggregation=ExplicitBucketHistogramAggregation(DURATION_BUCKETS_S),
    )
    provider = MeterProvider(readers, resource=resource, views=[durations])
    metrics.set_meter_provider(provider)
    return [provider.shutdown, *stops]
