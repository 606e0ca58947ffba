from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from episodes.models import EpisodeExcerpt, EpisodeFacts, EpisodeState, StopReason, StoredEpisode
from podium_kit.money import Money


class SearchOrder(StrEnum):
    NEWEST = "newest"
    COST = "cost"
    DURATION = "duration"


@dataclass(frozen=True)
class EpisodeFilter:
    """A filter of episodes; empty fields do not restrict."""

    states: Sequence[EpisodeState] = ()
    labels: dict[str, str] = field(default_factory=dict)
    words: str = ""
    stop_reasons: Sequence[StopReason] = ()
    policies: Sequence[str] = ()
    models: Sequence[str] = ()
    tool_names: Sequence[str] = ()
    subjects: Sequence[str] = ()
    teams: Sequence[str] = ()
    failure_kinds: Sequence[int] = ()
    group_id: str = ""
    task_id: str = ""
    parent_id: str = ""
    start_time: datetime | None = None
    end_time: datetime | None = None
    min_cost: Decimal | None = None
    max_cost: Decimal | None = None
    min_duration_ms: int | None = None
    max_duration_ms: int | None = None
    min_score: float | None = None
    max_score: float | None = None
    unpriced: bool = False
    training_consent: bool = False


@dataclass(frozen=True)
class PagePosition:
    """The last row of a page: the value that the list is in the order of, and the id."""

    value: str
    id: str


@dataclass(frozen=True)
class FoundEpisode:
    """An episode with what lists show of it."""

    stored: StoredEpisode
    excerpt: EpisodeExcerpt
    facts: EpisodeFacts


@dataclass(frozen=True)
class EpisodePage:
    found: list[FoundEpisode]
    # None on the last page.
    next: PagePosition | None


@dataclass(frozen=True)
class FacetCount:
    field: str
    value: str
    count: int


@dataclass(frozen=True)
class BucketCount:
    start_time: datetime
    # None for episodes that run.
    stop_reason: StopReason | None
    count: int
    # None where nothing was charged.
    cost: Money | None


@dataclass(frozen=True)
class EpisodeCounts:
    count: int
    facets: list[FacetCount]
    series: list[BucketCount] = field(default_factory=list)
    # Set where older episodes are not in the series.
    series_start_time: datetime | None = None
