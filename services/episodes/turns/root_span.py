"""What the root span of an episode's trace says once the episode has ended."""

from collections.abc import Collection
from decimal import Decimal

from episodes.models import Ending, Progress
from episodes.running_episode import RunningEpisode
from podium.common.v1 import usage_pb2
from podium.episodes.v1 import episode_pb2
from podium_kit.telemetry import EndedEpisode

# Of agents that nobody named: the platform's default orchestrator.
DEFAULT_AGENT = "podium"
READ = (
    usage_pb2.USAGE_DIMENSION_INPUT_FRESH,
    usage_pb2.USAGE_DIMENSION_CACHE_READ,
    usage_pb2.USAGE_DIMENSION_CACHE_WRITE_5M,
    usage_pb2.USAGE_DIMENSION_CACHE_WRITE_1H,
    usage_pb2.USAGE_DIMENSION_AUDIO_INPUT,
)
WRITTEN = (
    usage_pb2.USAGE_DIMENSION_OUTPUT_TEXT,
    usage_pb2.USAGE_DIMENSION_REASONING,
    usage_pb2.USAGE_DIMENSION_AUDIO_OUTPUT,
)


def ended_episode(episode: RunningEpisode, ending: Ending, progress: Progress) -> EndedEpisode:
    """The episode as its trace names it."""
    used = list(episode_pb2.Episode.FromString(progress.usage).usage)
    return EndedEpisode(
        id=episode.id,
        started_at=episode.stored.create_time,
        agent=episode.spec.model or DEFAULT_AGENT,
        user=episode.stored.new.subject,
        stop_reason=ending.stop_reason.value,
        task=episode.spec.task,
        answer=ending.answer,
        input_tokens=_sum(used, READ),
        output_tokens=_sum(used, WRITTEN),
        cost=progress.cost.amount_string() if progress.cost else "",
        currency=progress.cost.currency_code if progress.cost else "",
    )


def _sum(used: Collection[usage_pb2.Quantity], dimensions: Collection[int]) -> int:
    return int(sum((Decimal(q.amount) for q in used if q.dimension in dimensions), Decimal(0)))
