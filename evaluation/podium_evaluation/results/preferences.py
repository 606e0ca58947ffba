"""Reward and adherence of arms under a tenant's preferences, as the paper defines them.

Reward (section 3.2) compares the trials of an item with each other; adherence (appendix L) compares
each with what a baseline arm did on the item.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from podium_evaluation.results.trials import TrialResult
from podium_evaluation.statistics.intervals import mean_interval
from podium_training.gate import Interval
from podium_training.grpo.objective.rewards import Features, rewards
from podium_training.grpo.objective.rewards import Preferences as RewardWeights
from tool_registry.history.adherence import (
    MINOR_UNITS,
    Behaviour,
    adherence_score,
    mean_behaviour,
)
from tool_registry.models import Preferences

ByArm = Mapping[str, Sequence[TrialResult]]


@dataclass(frozen=True)
class PreferenceFigures:
    adherence: Interval
    reward: Interval


def preference_figures(
    weights: Preferences, by_arm: ByArm, baseline: str
) -> dict[str, PreferenceFigures]:
    """Returns figures by arm, on the items that all were judged on at a known cost."""
    items = _shared(by_arm)
    earned = _rewards(weights, items)
    return {
        arm: PreferenceFigures(
            mean_interval([_adherence(weights, each[arm], each[baseline]) for each in items]),
            mean_interval(earned[arm]),
        )
        for arm in by_arm
        if items
    }


def reward_gain(weights: Preferences, by_arm: ByArm, ours: str, theirs: str) -> Interval:
    """The reward of one arm less another's, item by item. Raises ValueError without items."""
    earned = _rewards(weights, _shared(by_arm))
    pairs = zip(earned[ours], earned[theirs], strict=True)
    return mean_interval([[fmean(mine) - fmean(other)] for mine, other in pairs])


Item = Mapping[str, Sequence[TrialResult]]


def _shared(by_arm: ByArm) -> list[Item]:
    items: dict[str, dict[str, list[TrialResult]]] = {}
    for arm, trials in by_arm.items():
        for trial in trials:
            if trial.score is not None and trial.cost is not None:
                items.setdefault(trial.item_id, {}).setdefault(arm, []).append(trial)
    return [each for each in items.values() if len(each) == len(by_arm)]


def _rewards(weights: Preferences, items: Sequence[Item]) -> dict[str, list[list[float]]]:
    """Returns rewards by arm and item. All trials of an item are a group."""
    tools = tuple(weights.tools)
    wanted = RewardWeights(
        tuple(weights.tools.values()), weights.outcome, weights.compute, weights.latency
    )
    found: dict[str, list[list[float]]] = {}
    for item in items:
        group = [(arm, trial) for arm, trials in item.items() for trial in trials]
        earned = rewards([_features(trial, tools) for _, trial in group], wanted)
        by_arm: dict[str, list[float]] = {}
        for (arm, _), value in zip(group, earned, strict=True):
            by_arm.setdefault(arm, []).append(float(value))
        for arm, values in by_arm.items():
            found.setdefault(arm, []).append(values)
    return found


def _adherence(
    weights: Preferences, trials: Sequence[TrialResult], baseline: Sequence[TrialResult]
) -> list[float]:
    usual = mean_behaviour([_behaviour(trial) for trial in baseline])
    return [adherence_score(_behaviour(trial), usual, weights) for trial in trials]


def _features(trial: TrialResult, tools: Sequence[str]) -> Features:
    calls = tuple(trial.calls.get(tool, 0) for tool in tools)
    return Features(calls, trial.score == 1, float(trial.cost or 0), trial.latency_s)


def _behaviour(trial: TrialResult) -> Behaviour:
    cost = float(trial.cost or 0) * MINOR_UNITS
    return Behaviour(trial.calls, float(trial.score == 1), cost, trial.latency_s)
