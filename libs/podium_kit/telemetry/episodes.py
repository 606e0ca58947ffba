"""One trace per episode, which every process can join by knowing the episode's id.

The trace id is the episode's UUID as a 128-bit number and the root span's id is its
lower 64 bits. No header has to survive a queue, a restart or a day of waiting for an
approval: who holds the id holds the trace.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import NonRecordingSpan, SpanContext, Status, StatusCode, TraceFlags
from opentelemetry.util.types import AttributeValue

from podium_kit.telemetry.content import note_messages

LOWER_64_BITS = (1 << 64) - 1
FAILED = "failed"

_root: ContextVar[SpanContext | None] = ContextVar("episode_root", default=None)


class NotAnEpisodeId(ValueError):
    """The id of an episode is not a UUID, so no trace id follows from it."""

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


@dataclass(frozen=True)
class EndedEpisode:
    """The attributes of an episode's root span. `agent` is the orchestrator's model; tokens are
    those of the orchestrator and of llm tools together; a cost of "" is unknown.
    """

    id: str
    started_at: datetime
    agent: str
    user: str
    stop_reason: str
    task: str
    answer: str
    input_tokens: int
    output_tokens: int
    cost: str
    currency: str


def record_episode(ended: EndedEpisode) -> None:
    """Writes the root span of the trace, from the episode's start to now, after OpenTelemetry's
    conventions for agents: call it at the end.

    Spans that joined before point at it already. Raises NotAnEpisodeId.
    """
    token = _root.set(_root_context(ended.id))
    try:
        start_ns = int(ended.started_at.timestamp() * 1e9)
        current = trace.get_tracer(__name__).start_span(
            "invoke_agent", Context(), attributes=_of_agent(ended), start_time=start_ns
        )
        current.update_name(f"invoke_agent {ended.agent}")
        if ended.stop_reason == FAILED:
            current.set_status(Status(StatusCode.ERROR))
        note_messages(current, ended.task, ended.answer, ended.stop_reason)
        current.end()
    finally:
        _root.reset(token)


def _of_agent(ended: EndedEpisode) -> dict[str, AttributeValue]:
    cost: dict[str, AttributeValue] = {}
    if ended.cost:
        cost = {"podium.cost.amount": ended.cost, "podium.cost.currency": ended.currency}
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "podium",
        "gen_ai.agent.name": ended.agent,
        "gen_ai.conversation.id": ended.id,
        "gen_ai.usage.input_tokens": ended.input_tokens,
        "gen_ai.usage.output_tokens": ended.output_tokens,
        "user.id": ended.user,
        "podium.stop_reason": ended.stop_reason,
        **cost,
    }


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
