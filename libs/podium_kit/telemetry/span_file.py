"""Spans as JSON lines in a file, for one machine without a collector.

A line: `{"service", "name", "kind", "trace_id", "span_id", "parent_id", "start_ns",
"duration_ms", "status", "attributes", "events"}`; ids are hexadecimal, `parent_id` is
empty for a root, `start_ns` is Unix time. The console page reads these files.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import format_span_id, format_trace_id


class SpanFileExporter(SpanExporter):
    """Appends to `path`; a file over `bytes_max` is kept once as `<path>.1`."""

    def __init__(self, path: Path, bytes_max: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        self._path = path
        self._bytes_max = bytes_max
        self._lock = Lock()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        lines = "".join(json.dumps(span_record(span)) + "\n" for span in spans)
        with self._lock:
            self._rotate()
            # One write in append mode: processes of one service may share the file.
            with self._path.open("ab", buffering=0) as file:
                file.write(lines.encode())
        return SpanExportResult.SUCCESS

    def _rotate(self) -> None:
        if self._path.exists() and self._path.stat().st_size > self._bytes_max:
            self._path.replace(self._path.with_name(self._path.name + ".1"))

    def shutdown(self) -> None:
        """Does nothing: no file stays open between exports."""


def span_record(span: ReadableSpan) -> dict[str, Any]:
    context = span.get_span_context()
    start_ns, end_ns = span.start_time or 0, span.end_time or 0
    return {
        "service": span.resource.attributes.get("service.name", ""),
        "name": span.name,
        "kind": span.kind.name,
        "trace_id": format_trace_id(context.trace_id) if context else "",
        "span_id": format_span_id(context.span_id) if context else "",
        "parent_id": format_span_id(span.parent.span_id) if span.parent else "",
        "start_ns": start_ns,
        "duration_ms": (end_ns - start_ns) / 1e6,
        "status": span.status.status_code.name,
        "attributes": dict(span.attributes or {}),
        "events": [{"name": event.name, "time_ns": event.timestamp} for event in span.events],
    }
