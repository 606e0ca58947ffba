"""Accuracy under seven budgets: a curve for every arm, and for every rule of choosing an arm."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from podium_evaluation.results.baselines import (
    LEARNERS,
    ORACLE,
    ItemOutcome,
    Learner,
    best_arm,
    crossed,
)
from podium_evaluation.results.trials import TrialResult
from podium_evaluation.statistics.intervals import mean_interval
from podium_training.gate import Interval

LIMITS = 7
# Of cost against score, in shares of the most expensive arm's cost: from no weight to all of it.
WEIGHTS = (0.0, *(10 ** (power / 4) for power in range(-8, 13)))


@dataclass(frozen=True)
class SweepPoint:
    limit: float
    """USD a trial."""
    spent: float
    """USD a trial, in the mean; a rule that learnt elsewhere may pass its limit."""
    score: Interval


@dataclass(frozen=True)
class Curve:
    name: str
    points: Sequence[SweepPoint]


def limits_of(items: Sequence[ItemOutcome]) -> list[float]:
    """From what the cheapest arm costs to what the most expensive one does, by equal factors."""
    costs = [fmean(item.arms[arm].cost for item in items) for arm in items[0].arms]
    low, high = min(costs), max(costs)
    if not low:
        return [high * step / (LIMITS - 1) for step in range(LIMITS)]
    return [low * (high / low) ** (step / (LIMITS - 1)) for step in range(LIMITS)]


def arm_curve(name: str, trials: Sequence[TrialResult], limits: Sequence[float]) -> Curve | None:
    """The arm with a budget for each trial: one that costs more is wrong, and spends the budget.

    None where a cost is unknown, or nothing was judged.
    """
    found: dict[str, list[tuple[float, float]]] = {}
    for trial in trials:
        if trial.score is not None:
            if trial.cost is None:
                return None
            found.setdefault(trial.item_id, []).append((trial.score, float(trial.cost)))
    if not found:
        return None
    points = []
    for limit in limits:
        scores = [[score * (cost <= limit) for score, cost in each] for each in found.values()]
        spent = fmean(fmean(min(cost, limit) for _, cost in each) for each in found.values())
        points.append(SweepPoint(limit, spent, mean_interval(scores)))
    return Curve(name, points)


def rule_curves(
    items: Sequence[ItemOutcome], limits: Sequence[float], known: Sequence[ItemOutcome] = ()
) -> list[Curve]:
    """Every rule that can weigh cost, with the least weight that keeps the mean cost of what it
    learns from within the limit. The oracle learns from the items themselves.
    """
    if len(items) < 4 or len(items[0].arms) < 2:
        return []
    oracle = WeighingRule(items, lambda _: lambda item: item.arms)
    rules: dict[str, Callable[[ItemOutcome], WeighingRule]] = {ORACLE: lambda _: oracle}
    for name, learner in LEARNERS.items():
        rules[name] = crossed(items, partial(WeighingRule, learner=learner), known)
    return [
        Curve(name, [_point(items, limit, rule) for limit in limits])
        for name, rule in rules.items()
    ]


class WeighingRule:
    """Chooses by what was learnt, with the least weight of cost that keeps within a limit."""

    def __init__(self, known: Sequence[ItemOutcome], learner: Learner) -> None:
        self._known = known
        self._expected = learner(known)
        self._expectations = [self._expected(item) for item in known]
        highest = max(fmean(item.arms[arm].cost for item in known) for arm in known[0].arms)
        self._scale = 1 / highest if highest else 0.0
        self._weights: dict[float, float] = {}

    def choose(self, item: ItemOutcome, limit: float) -> str:
        if limit not in self._weights:
            self._weights[limit] = self._weight(limit)
        return best_arm(self._expected(item), self._weights[limit])

    def _weight(self, limit: float) -> float:
        for weight in WEIGHTS:
            chosen = [best_arm(each, weight * self._scale) for each in self._expectations]
            costs = (item.arms[arm].cost for item, arm in zip(self._known, chosen, strict=True))
            if fmean(costs) <= limit:
                break
        return weight * self._scale


def _point(
    items: Sequence[ItemOutcome], limit: float, rule: Callable[[ItemOutcome], WeighingRule]
) -> SweepPoint:
    made = [item.arms[rule(item).choose(item, limit)] for item in items]
    score = mean_interval([[each.score] for each in made])
    return SweepPoint(limit, fmean(each.cost for each in made), score)
