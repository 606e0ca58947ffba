"""One trace per episode, which every process can join by knowing the episode's id.

The trace id is the episode's UUID as a 128-bit number and the root span's id is its
lower 64 bits. No header has to survive a queue, a restart or a day of waiting for an
approval: who holds the id holds the trace.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from uuid import UUID

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from opentelemetry.util.types import AttributeValue

LOWER_64_BITS = (1 << 64) - 1

_root: ContextVar[SpanContext | None] = ContextVar("episode_root", default=None)


class NotAnEpisodeId(ValueError):
    """Only a UUID can be the id of a trace."""

    def __init__(self, episode_id: str) -> None:
        super().__init__(f"episode id {episode_id!r} is not a UUID")
        self.episode_id = episode_id


@contextmanager
def episode_context(episode_id: str) -> Iterator[None]:
    """Spans started inside belong to the episode's trace.

    A current span that is of this trace already stays the parent. Raises NotAnEpisodeId.
    """
    root = _root_context(episode_id)
    if trace.get_current_span().get_span_context().trace_id == root.trace_id:
        yield
        return
    token = attach(trace.set_span_in_context(NonRecordingSpan(root)))
    try:
        yield
    finally:
        detach(token)


def record_episode(
    episode_id: str, started_at: datetime, attributes: Mapping[str, AttributeValue]
) -> None:
    """Writes the root span of the trace, from `started_at` to now: call it at the end.

    Spans that joined before point at it already. Raises NotAnEpisodeId.
    """
    token = _root.set(_root_context(episode_id))
    try:
        start_ns = int(started_at.timestamp() * 1e9)
        tracer = trace.get_tracer(__name__)
        tracer.start_span("episode", Context(), attributes=attributes, start_time=start_ns).end()
    finally:
        _root.reset(token)


class EpisodeIdGenerator(RandomIdGenerator):
    """Random ids, but for the root span that `record_episode` writes."""

    def generate_span_id(self) -> int:
        root = _root.get()
        return root.span_id if root else super().generate_span_id()

    def generate_trace_id(self) -> int:
        root = _root.get()
        return root.trace_id if root else super().generate_trace_id()


def _root_context(episode_id: str) -> SpanContext:
    try:
        number = UUID(episode_id).int
    except ValueError:
        raise NotAnEpisodeId(episode_id) from None
    sampled = TraceFlags(TraceFlags.SAMPLED)
    # A UUID's lower half starts with its variant bits, so it is never the invalid id 0.
    return SpanContext(number, number & LOWER_64_BITS, is_remote=True, trace_flags=sampled)
