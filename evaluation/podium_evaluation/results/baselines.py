"""Scores and costs of choosing one of the run's arms for each item by plain rules.

A policy that chooses is worth no more than such a rule unless it does better than it.

What a rule learns it learns on one half of the items and is scored on the other, both ways, so
that every item counts and none is scored by what was learnt on it.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from podium_evaluation.results.trials import TrialResult
from podium_evaluation.statistics.intervals import mean_interval
from podium_evaluation.statistics.measures import gap_closed, top_share
from podium_training.gate import Interval

NEIGHBOURS = 10


@dataclass(frozen=True)
class Choice:
    """The mean score and cost of an arm's trials of an item."""

    score: float
    cost: float


@dataclass(frozen=True)
class ItemOutcome:
    """An item that every arm was judged on at a known cost."""

    item_id: str
    family: str
    question: str
    arms: Mapping[str, Choice]


@dataclass(frozen=True)
class Baseline:
    name: str
    score: Interval
    cost: float
    """USD a trial."""
    top_share: float | None
    """The share of the arm that is chosen most; None for a mixture."""
    gap_closed: float | None = None
    """The share of the gap between the best fixed arm and the oracle."""


# Learns from items, and chooses an arm for another one.
Chooser = Callable[[ItemOutcome], str]
Learner = Callable[[Sequence[ItemOutcome]], Chooser]


def outcomes(trials: Sequence[TrialResult], arms: Sequence[str]) -> list[ItemOutcome]:
    """Items that all arms were judged on; empty where a cost is unknown."""
    found: dict[str, dict[str, list[TrialResult]]] = {}
    for trial in trials:
        if trial.score is not None:
            found.setdefault(trial.item_id, {}).setdefault(trial.arm, []).append(trial)
    complete = [by_arm for by_arm in found.values() if set(by_arm) == set(arms)]
    if any(trial.cost is None for by_arm in complete for each in by_arm.values() for trial in each):
        return []
    return [_outcome(by_arm) for by_arm in complete]


def _outcome(by_arm: Mapping[str, Sequence[TrialResult]]) -> ItemOutcome:
    one = next(iter(by_arm.values()))[0]
    choices = {
        arm: Choice(
            fmean(trial.score or 0.0 for trial in each),
            fmean(float(trial.cost or 0) for trial in each),
        )
        for arm, each in by_arm.items()
    }
    return ItemOutcome(one.item_id, one.family, one.question, choices)


def baselines(items: Sequence[ItemOutcome]) -> list[Baseline]:
    """One row per rule; none below two arms or four items, where there is nothing to learn."""
    if len(items) < 4 or len(items[0].arms) < 2:
        return []
    rows = [
        _row("oracle: the cheapest arm that solves the item", items, _oracle),
        *(_learnt(name, items, learner) for name, learner in LEARNERS.items()),
        _random(items),
    ]
    oracle, fixed = rows[0].score.mean, rows[1].score.mean
    return [
        Baseline(**{**vars(row), "gap_closed": gap_closed(row.score.mean, fixed, oracle)})
        for row in rows
    ]


def _row(name: str, items: Sequence[ItemOutcome], choose: Chooser) -> Baseline:
    chosen = [choose(item) for item in items]
    made = [item.arms[arm] for item, arm in zip(items, chosen, strict=True)]
    scores = mean_interval([[each.score] for each in made])
    return Baseline(name, scores, fmean(each.cost for each in made), top_share(chosen))


def _learnt(name: str, items: Sequence[ItemOutcome], learner: Learner) -> Baseline:
    halves = [[item for item in items if _half(item) is side] for side in (False, True)]
    if not all(halves):
        halves = [list(items[::2]), list(items[1::2])]
    choosers = [learner(halves[1]), learner(halves[0])]
    side_of = {item.item_id: side for side, half in enumerate(halves) for item in half}
    return _row(name, items, lambda item: choosers[side_of[item.item_id]](item))


def _half(item: ItemOutcome) -> bool:
    return bool(hashlib.sha256(item.item_id.encode()).digest()[0] % 2)


def _random(items: Sequence[ItemOutcome]) -> Baseline:
    scores = [[fmean(each.score for each in item.arms.values())] for item in items]
    cost = fmean(each.cost for item in items for each in item.arms.values())
    return Baseline("random", mean_interval(scores), cost, None)


def _oracle(item: ItemOutcome) -> str:
    best = max(choice.score for choice in item.arms.values())
    solving = {arm: each.cost for arm, each in item.arms.items() if each.score == best}
    pool = solving if best > 0 else {arm: each.cost for arm, each in item.arms.items()}
    return min(pool, key=lambda arm: pool[arm])


def _best(items: Sequence[ItemOutcome]) -> str:
    """The arm of the highest mean score, the cheaper one of equals."""
    return max(items[0].arms, key=lambda arm: (_score(items, arm), -_cost(items, arm)))


def _cheapest(items: Sequence[ItemOutcome]) -> str:
    return min(items[0].arms, key=lambda arm: _cost(items, arm))


def _score(items: Sequence[ItemOutcome], arm: str) -> float:
    return fmean(item.arms[arm].score for item in items)


def _cost(items: Sequence[ItemOutcome], arm: str) -> float:
    return fmean(item.arms[arm].cost for item in items)


def _fixed(items: Sequence[ItemOutcome]) -> Chooser:
    best = _best(items)
    return lambda _: best


def _always_cheapest(items: Sequence[ItemOutcome]) -> Chooser:
    cheapest = _cheapest(items)
    return lambda _: cheapest


def _per_family(items: Sequence[ItemOutcome]) -> Chooser:
    families: dict[str, list[ItemOutcome]] = {}
    for item in items:
        families.setdefault(item.family, []).append(item)
    best = {family: _best(members) for family, members in families.items()}
    usual = _best(items)
    return lambda item: best.get(item.family, usual)


def _input_size(items: Sequence[ItemOutcome]) -> Chooser:
    middle = median(len(item.question) for item in items)
    large, small = _best(items), _cheapest(items)
    return lambda item: large if len(item.question) > middle else small


def _nearest(items: Sequence[ItemOutcome]) -> Chooser:
    words = [Counter(item.question.lower().split()) for item in items]
    spread = Counter(word for each in words for word in each)
    weight = {word: math.log(1 + len(items) / count) for word, count in spread.items()}
    vectors = [_vector(each, weight) for each in words]

    def choose(item: ItemOutcome) -> str:
        own = _vector(Counter(item.question.lower().split()), weight)
        near = [sum(own.get(word, 0.0) * value for word, value in each.items()) for each in vectors]
        places = sorted(range(len(items)), key=lambda place: (-near[place], place))
        return _best([items[place] for place in places[:NEIGHBOURS]])

    return choose


def _vector(words: Counter[str], weight: Mapping[str, float]) -> dict[str, float]:
    """TF-IDF of the words that were learnt, of length 1."""
    found = {word: count * weight[word] for word, count in words.items() if word in weight}
    length = math.sqrt(math.fsum(value * value for value in found.values()))
    return {word: value / length for word, value in found.items()} if length else {}


# The first is what the oracle's gap begins at.
LEARNERS: Mapping[str, Learner] = {
    "best fixed": _fixed,
    "cheapest": _always_cheapest,
    "best of each family": _per_family,
    "input size: the best arm for long questions, else the cheapest": _input_size,
    f"nearest neighbours, k = {NEIGHBOURS}": _nearest,
}
