"""Where the services' traces go: into files, or to the collector of OpenTelemetry's variables."""

import os
from collections.abc import Mapping
from pathlib import Path

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
# Its values that put what was written on spans.
ON_SPANS = ("true", "span_only", "span_and_event")
# The exporters read these themselves.
INHERITED = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_RESOURCE_ATTRIBUTES")


def telemetry_settings(folder: Path, given: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Of every service."""
    if not (endpoint := given.get(ENDPOINT)):
        return {"telemetry__mode": "file", "telemetry__folder": str(folder)}
    metrics = given.get("OTEL_METRICS_EXPORTER", "otlp") != "none"
    return {
        "telemetry__mode": "otlp",
        "telemetry__otlp_endpoint": endpoint,
        "telemetry__otlp_protocol": given.get("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        "telemetry__otlp_metrics": str(metrics).lower(),
        "telemetry__log_prompts": str(given.get(CONTENT, "").lower() in ON_SPANS).lower(),
    }
