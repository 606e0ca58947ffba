"""The figures of each arm, and of each pair of arms on the items that both have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from podium_evaluation.results.trials import (
    DIVERGED,
    JUDGED,
    NOT_RUN,
    UNJUDGED,
    TrialResult,
    costs_by_item,
    scores_by_item,
)
from podium_evaluation.statistics.comparisons import discordant, holm, mcnemar, sign_flips
from podium_evaluation.statistics.intervals import (
    CONFIDENCE,
    Ratio,
    accuracy_interval,
    mean_interval,
    paired_share_interval,
    ratio_interval,
)
from podium_evaluation.statistics.measures import pass_hat_k, percentile
from podium_training.gate import Interval


@dataclass(frozen=True)
class ArmFigures:
    arm: str
    accuracy: Interval | None
    """The mean score of judged trials; None without any."""
    least: float
    most: float
    """The accuracy if all unjudged trials were wrong, and if all were right."""
    judged: int
    unjudged: int
    not_run: int
    diverged: int
    """Replays that called for an effect which nothing recorded."""
    cost: Interval | None
    """USD a trial; None where a cost is unknown."""
    cost_per_solved: Ratio | None
    latency_p50_s: float
    latency_p90_s: float
    latency_sum_s: float
    passes: Mapping[int, float]
    """pass^k for every k that each item has trials for."""


def arm_figures(arm: str, trials: Sequence[TrialResult]) -> ArmFigures:
    scores, costs = scores_by_item(trials), costs_by_item(trials)
    judged = [trial for trial in trials if trial.state == JUDGED]
    unjudged = sum(trial.state == UNJUDGED for trial in trials)
    total = sum(trial.score or 0.0 for trial in judged)
    latencies = [trial.latency_s for trial in judged] or [0.0]
    count = len(judged) + unjudged
    return ArmFigures(
        arm,
        accuracy_interval(list(scores.values())) if scores else None,
        total / count if count else 0.0,
        (total + unjudged) / count if count else 0.0,
        len(judged),
        unjudged,
        sum(trial.state == NOT_RUN for trial in trials),
        sum(trial.state == DIVERGED for trial in trials),
        mean_interval(list(costs.values())) if costs else None,
        _per_solved(scores, costs) if costs else None,
        percentile(latencies, 0.5),
        percentile(latencies, 0.9),
        sum(latencies),
        _passes(scores),
    )


def _per_solved(
    scores: Mapping[str, Sequence[float]], costs: Mapping[str, Sequence[float]]
) -> Ratio | None:
    sums = [sum(costs[item]) for item in scores]
    return ratio_interval(sums, [sum(each) for each in scores.values()])


def _passes(scores: Mapping[str, Sequence[float]]) -> dict[int, float]:
    if not scores:
        return {}
    least = min(map(len, scores.values()))
    return {
        k: fmean(
            pass_hat_k(sum(score == 1 for score in each), len(each), k) for each in scores.values()
        )
        for k in range(1, least + 1)
    }


@dataclass(frozen=True)
class PairFigures:
    """The second arm less the first, on the items that both were judged on."""

    first: str
    second: str
    items: int
    accuracy: Interval
    p_value: float
    """McNemar's where each item has one trial, right or wrong; else that of sign flips."""
    adjusted: float
    """The same after Holm, over all pairs."""
    cost_ratio: Ratio | None
    """The second's cost over the first's; None where one is unknown or 0."""
    latency_ratio: Ratio | None


def pair_figures(
    by_arm: Mapping[str, Sequence[TrialResult]], confidence: float = CONFIDENCE
) -> list[PairFigures]:
    """Every pair of arms in their order; those that share no judged item are left out."""
    pairs = {
        (first, second): found
        for first, second in combinations(by_arm, 2)
        if (found := _pair(first, second, by_arm[first], by_arm[second], confidence))
    }
    adjusted = holm({key: pair.p_value for key, pair in pairs.items()}) if pairs else {}
    return [PairFigures(**{**vars(pair), "adjusted": adjusted[key]}) for key, pair in pairs.items()]


def _pair(
    first: str,
    second: str,
    ours: Sequence[TrialResult],
    theirs: Sequence[TrialResult],
    confidence: float,
) -> PairFigures | None:
    one, other = scores_by_item(ours), scores_by_item(theirs)
    shared = [item for item in one if item in other]
    if not shared:
        return None
    differences = [fmean(other[item]) - fmean(one[item]) for item in shared]
    if counts := discordant(one, other):
        p_value = mcnemar(*counts)
        both = sum(one[item] == other[item] == [1.0] for item in shared)
        neither = len(shared) - both - sum(counts)
        accuracy = paired_share_interval(both, *counts, neither, confidence)
    else:
        p_value = sign_flips(differences)
        accuracy = mean_interval([[each] for each in differences], confidence)
    return PairFigures(
        first,
        second,
        len(shared),
        accuracy,
        p_value,
        p_value,
        _ratio(shared, costs_by_item(ours), costs_by_item(theirs), confidence),
        _ratio(shared, _latencies(ours), _latencies(theirs), confidence),
    )


def _ratio(
    shared: Sequence[str],
    first: Mapping[str, Sequence[float]] | None,
    second: Mapping[str, Sequence[float]] | None,
    confidence: float,
) -> Ratio | None:
    if first is None or second is None:
        return None
    above = [fmean(second[item]) for item in shared]
    return ratio_interval(above, [fmean(first[item]) for item in shared], confidence)


def _latencies(trials: Sequence[TrialResult]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for trial in trials:
        if trial.score is not None:
            found.setdefault(trial.item_id, []).append(trial.latency_s)
    return found
