from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.trace import Span, SpanKind, Status, StatusCode, get_tracer
from opentelemetry.util.types import AttributeValue


@contextmanager
def span(
    name: str,
    attributes: dict[str, AttributeValue] | None = None,
    kind: SpanKind = SpanKind.INTERNAL,
) -> Iterator[Span]:
    """A current span whose name and attributes are listed in docs/telemetry.yaml.

    OpenTelemetry's default would record exceptions with their text and stack trace,
    and those of a database driver or a model client quote what the user wrote.
    """
    with get_tracer("podium").start_as_current_span(
        name,
        attributes=attributes,
        kind=kind,
        record_exception=False,
        set_status_on_exception=False,
    ) as current:
        try:
            yield current
        except BaseException as error:
            current.set_attribute("error.type", type(error).__qualname__)
            current.set_status(Status(StatusCode.ERROR))
            raise
