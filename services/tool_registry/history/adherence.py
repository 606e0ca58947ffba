"""Adherence of an episode to its preference vector: appendix L of the paper. Pure.

With M = [calls per tool, outcome, cost, latency] of the episode and M_0 of a baseline on
the same task, each tool and the outcome count M[k] / max(1, M_0[k]), cost and latency
count M_0[k] / max(1, M[k]); the score is the dot product with P when the task is solved,
otherwise 0. It is not bounded above.

The paper's r_compute is negative dollars, for which these quotients mean nothing: costs
must be positive, and in a unit in which they are mostly above 1. Ours are in hundredths
of the currency (cents) and seconds.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from podium_kit.money import Money
from tool_registry.history.past_episodes import PastEpisode
from tool_registry.models import Preferences

MINOR_UNITS = 100


@dataclass(frozen=True)
class Behaviour:
    """The vector M: calls per tool, outcome (0 or 1), cost in hundredths, latency in seconds."""

    tool_calls: Mapping[str, float]
    outcome: float
    cost: float
    latency_s: float


def adherence_score(done: Behaviour, baseline: Behaviour, preferences: Preferences) -> float:
    if done.outcome < 1:
        return 0.0
    tools = sum(
        weight * _more_is_better(done.tool_calls.get(name, 0), baseline.tool_calls.get(name, 0))
        for name, weight in preferences.tools.items()
    )
    return (
        tools
        + preferences.outcome * _more_is_better(done.outcome, baseline.outcome)
        + preferences.compute * _less_is_better(done.cost, baseline.cost)
        + preferences.latency * _less_is_better(done.latency_s, baseline.latency_s)
    )


def mean_behaviour(several: Sequence[Behaviour]) -> Behaviour:
    """The baseline of a task that was tried more than once."""
    names = {name for one in several for name in one.tool_calls}
    count = len(several)
    return Behaviour(
        {name: sum(one.tool_calls.get(name, 0) for one in several) / count for name in names},
        sum(one.outcome for one in several) / count,
        sum(one.cost for one in several) / count,
        sum(one.latency_s for one in several) / count,
    )


def _more_is_better(done: float, baseline: float) -> float:
    return done / max(1.0, baseline)


def _less_is_better(done: float, baseline: float) -> float:
    return baseline / max(1.0, done)


VersionKey = tuple[str, int]


@dataclass(frozen=True)
class ScoredEpisode:
    episode: PastEpisode
    solved: bool
    score: float


@dataclass(frozen=True)
class PolicyScores:
    """The scores of a policy version's episodes, and how many were left out and why."""

    policy_name: str
    policy_version: int
    scored: tuple[ScoredEpisode, ...]
    without_baseline: int
    without_outcome: int
    without_cost: int

    @property
    def total_score(self) -> float:
        """The paper's benchmark score."""
        return sum(each.score for each in self.scored)

    @property
    def mean_cost(self) -> Money | None:
        """The mean over scored episodes; None when none is known or currencies differ."""
        costs = [each.episode.cost for each in self.scored if each.episode.cost is not None]
        if len({cost.currency_code for cost in costs}) != 1:
            return None
        total = sum(costs[1:], start=costs[0])
        return Money(total.amount / len(costs), total.currency_code).quantized()

    @property
    def mean_latency_s(self) -> float:
        """The mean over scored episodes; 0 without any."""
        latencies = [each.episode.latency_s for each in self.scored]
        return sum(latencies) / len(latencies) if latencies else 0.0


class AdherenceReport:
    def __init__(
        self, episodes: Sequence[PastEpisode], baseline_policy: str, answered_is_solved: bool
    ) -> None:
        self._answered_is_solved = answered_is_solved
        by_task: defaultdict[str, list[Behaviour]] = defaultdict(list)
        for episode in episodes:
            if episode.policy_name == baseline_policy and self._is_scorable(episode):
                by_task[episode.task_key].append(self._behaviour(episode))
        self._baselines = {task: mean_behaviour(several) for task, several in by_task.items()}

    def policies(self, episodes: Iterable[PastEpisode]) -> list[PolicyScores]:
        ordered = sorted(episodes, key=_version)
        return [self._scores(key, list(group)) for key, group in groupby(ordered, _version)]

    def _scores(self, key: VersionKey, episodes: list[PastEpisode]) -> PolicyScores:
        judged = [each for each in episodes if self._solved(each) is not None]
        priced = [each for each in judged if each.cost is not None]
        matched = [each for each in priced if each.task_key in self._baselines]
        return PolicyScores(
            *key,
            tuple(self._scored(each) for each in matched),
            without_baseline=len(priced) - len(matched),
            without_outcome=len(episodes) - len(judged),
            without_cost=len(judged) - len(priced),
        )

    def _scored(self, episode: PastEpisode) -> ScoredEpisode:
        baseline = self._baselines[episode.task_key]
        score = adherence_score(self._behaviour(episode), baseline, episode.preferences)
        return ScoredEpisode(episode, bool(self._solved(episode)), score)

    def _is_scorable(self, episode: PastEpisode) -> bool:
        return self._solved(episode) is not None and episode.cost is not None

    def _behaviour(self, episode: PastEpisode) -> Behaviour:
        cost = float(episode.cost.amount) * MINOR_UNITS if episode.cost is not None else 0.0
        outcome = float(bool(self._solved(episode)))
        return Behaviour(episode.tool_call_counts, outcome, cost, episode.latency_s)

    def _solved(self, episode: PastEpisode) -> bool | None:
        if episode.solved is None and self._answered_is_solved:
            return episode.answered
        return episode.solved


def _version(episode: PastEpisode) -> VersionKey:
    return episode.policy_name, episode.policy_version
