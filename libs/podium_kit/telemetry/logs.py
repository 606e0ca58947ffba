import json
import logging
from datetime import UTC, datetime

from opentelemetry.trace import format_span_id, format_trace_id, get_current_span

# They log whole URLs and ids of sessions at INFO, and a URL of a tool may hold a key; Kafka's
# client logs a dozen lines for each connection, and alembic its plugins.
TALKATIVE = ("httpx", "httpx2", "mcp.client", "kafka", "alembic.runtime.plugins")


class JsonFormatter(logging.Formatter):
    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "service": self._service,
            "logger": record.name,
            "message": record.getMessage(),
            **_trace_ids(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def _trace_ids() -> dict[str, str]:
    context = get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {
        "trace_id": format_trace_id(context.trace_id),
        "span_id": format_span_id(context.span_id),
    }


def log_json(service: str, level: str) -> None:
    """Sends every logger of this process, and warnings, to stderr as JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter(service))
    logging.basicConfig(handlers=[handler], level=level, force=True)
    logging.captureWarnings(True)
    for library in TALKATIVE:
        logging.getLogger(library).setLevel(logging.WARNING)
