from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from podium_kit.money import Money
from podium_kit.rpc.errors import FailedPrecondition
from tool_registry.models import Preferences
from tool_registry.ranking.experience import Answered

EPISODES_DEFAULT = 200


class EpisodesNotConfigured(FailedPrecondition):
    def __init__(self) -> None:
        super().__init__(
            "past episodes cannot be read: set TOOL_REGISTRY_EPISODES_TARGET"
            " to the episodes service"
        )


@dataclass(frozen=True)
class PastCall:
    """A tool call that was made; an unknown cost is None."""

    tool_name: str
    tool_version: int
    model_alias: str
    cost: Money | None
    failed: bool


@dataclass(frozen=True)
class PastEpisode:
    """An ended episode.

    `solved` is the verifiers' verdict and `liked` that of the newest feedback, None where there is
    none; `answered` is whether it came to an answer, None for one that its check left unjudged;
    `cost` is None when one of its calls has no known cost.
    """

    id: str
    task_id: str
    task: str
    answer: str
    policy_name: str
    policy_version: int
    preferences: Preferences
    tool_call_counts: Mapping[str, int]
    calls: tuple[PastCall, ...]
    cost: Money | None
    latency_s: float
    answered: bool | None
    solved: bool | None
    liked: bool | None = None

    @property
    def right(self) -> bool | None:
        """The verdict of the verifiers, or else of feedback; None for an unverified answer."""
        return self.liked if self.solved is None else self.solved

    @property
    def task_key(self) -> str:
        """The key that attempts at the same task share."""
        return self.task_id or self.task


@dataclass(frozen=True)
class Selection:
    """The newest episodes since a time, under any of some policies."""

    since: datetime
    limit: int
    policies: frozenset[str] = frozenset()
    tool_name: str = ""
    model_alias: str = ""
    """Only those that called this model of the tool."""
    verified: bool = False
    """Only those with a verdict of a verifier or of feedback, among a bounded number of others."""
    consenting: bool = False
    """Only those whose policy consented to training."""


class PastEpisodes(Protocol):
    async def select(self, selection: Selection) -> list[PastEpisode]: ...


class NoPastEpisodes:
    async def select(self, selection: Selection) -> list[PastEpisode]:
        raise EpisodesNotConfigured

    async def answered(self, known: Mapping[str, Answered]) -> dict[str, Answered]:
        return {}

    async def start(self, episode_id: str, task: str, tool_name: str) -> None:
        raise EpisodesNotConfigured

    async def written(self, episode_id: str, tool_name: str) -> str | None:
        raise EpisodesNotConfigured
