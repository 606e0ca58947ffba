"""Scores and costs of choosing one of the run's arms for each item by plain rules.

A policy that chooses is worth no more than such a rule unless it does better than it.

What a rule learns it learns on other items, where there are such, or on one half of the items and
is scored on the other, both ways, so that every item counts and none is scored by what was learnt
on it.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean, median
from typing import TypeVar

from podium_evaluation.results.trials import TrialResult
from podium_evaluation.statistics.intervals import mean_interval
from podium_evaluation.statistics.measures import evenness, gap_closed, top_share
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
    evenness: float | None
    """Entropy of the choices over that of all arms: 0 where one arm is always chosen."""
    over_escalation: float | None
    """The share of items for which the most expensive arm is chosen and a cheaper one is right."""
    gap_closed: float | None = None
    """The share of the gap between the best fixed arm and the oracle."""


T = TypeVar("T")
Chooser = Callable[[ItemOutcome], str]
# What each arm scored and cost in the mean over items like one, to choose for it.
Expectation = Callable[[ItemOutcome], Mapping[str, Choice]]
# Learns from items what to expect of another one.
Learner = Callable[[Sequence[ItemOutcome]], Expectation]


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


def baselines(items: Sequence[ItemOutcome], known: Sequence[ItemOutcome] = ()) -> list[Baseline]:
    """One row per rule; none below two arms or four items, where there is nothing to learn.

    Rules learn from the `known` items, or from halves of the items themselves.
    """
    if len(items) < 4 or len(items[0].arms) < 2:
        return []
    rows = [
        baseline(f"{ORACLE}: the cheapest arm that solves the item", items, _oracle),
        *(baseline(name, items, learnt(items, each, known)) for name, each in LEARNERS.items()),
        baseline("cheapest", items, crossed_choice(items, _always_cheapest, known)),
        baseline(BY_SIZE, items, crossed_choice(items, _by_size, known)),
        _random(items),
    ]
    best, fixed = rows[0].score.mean, rows[1].score.mean
    return [replace(row, gap_closed=gap_closed(row.score.mean, fixed, best)) for row in rows]


def baseline(name: str, items: Sequence[ItemOutcome], choose: Chooser) -> Baseline:
    chosen = [choose(item) for item in items]
    made = [item.arms[arm] for item, arm in zip(items, chosen, strict=True)]
    most_expensive = max(items[0].arms, key=lambda arm: _cost(items, arm))
    escalated = [
        arm == most_expensive and any(_solves_for_less(item, arm, other) for other in item.arms)
        for item, arm in zip(items, chosen, strict=True)
    ]
    return Baseline(
        name,
        mean_interval([[each.score] for each in made]),
        fmean(each.cost for each in made),
        top_share(chosen),
        evenness(chosen, len(items[0].arms)),
        fmean(escalated),
    )


def _solves_for_less(item: ItemOutcome, arm: str, other: str) -> bool:
    return item.arms[other].score == 1 and item.arms[other].cost < item.arms[arm].cost


def learnt(
    items: Sequence[ItemOutcome], learner: Learner, known: Sequence[ItemOutcome] = ()
) -> Chooser:
    """Chooses the arm of the highest mean score on what is like the item."""

    expected = crossed(items, learner, known)
    return lambda item: best_arm(expected(item)(item))


def crossed(
    items: Sequence[ItemOutcome],
    learn: Callable[[Sequence[ItemOutcome]], T],
    known: Sequence[ItemOutcome] = (),
) -> Callable[[ItemOutcome], T]:
    """Returns what was learnt for an item: from the known ones, or on the half without it."""
    if known:
        learnt_once = learn(known)
        return lambda _: learnt_once
    first, second = halves(items)
    sides = (learn(second), learn(first))
    side_of = {item.item_id: side for side, half in enumerate((first, second)) for item in half}
    return lambda item: sides[side_of[item.item_id]]


def crossed_choice(
    items: Sequence[ItemOutcome],
    learn: Callable[[Sequence[ItemOutcome]], Chooser],
    known: Sequence[ItemOutcome],
) -> Chooser:
    choosers = crossed(items, learn, known)
    return lambda item: choosers(item)(item)


def halves(items: Sequence[ItemOutcome]) -> tuple[list[ItemOutcome], list[ItemOutcome]]:
    """Half by half of the ids' digests; every other item where one half would be empty."""
    first = [item for item in items if not _is_second(item)]
    second = [item for item in items if _is_second(item)]
    return (first, second) if first and second else (list(items[::2]), list(items[1::2]))


def _is_second(item: ItemOutcome) -> bool:
    return bool(hashlib.sha256(item.item_id.encode()).digest()[0] % 2)


def _oracle(item: ItemOutcome) -> str:
    return best_arm(item.arms)


def best_arm(expected: Mapping[str, Choice], weight: float = 0.0) -> str:
    """The arm of the highest score less weighed cost, the cheaper one of equals."""

    def worth(arm: str) -> tuple[float, float]:
        choice = expected[arm]
        return choice.score - weight * choice.cost, -choice.cost

    return max(expected, key=worth)


def means_of(items: Sequence[ItemOutcome]) -> Mapping[str, Choice]:
    return {
        arm: Choice(fmean(item.arms[arm].score for item in items), _cost(items, arm))
        for arm in items[0].arms
    }


def _cost(items: Sequence[ItemOutcome], arm: str) -> float:
    return fmean(item.arms[arm].cost for item in items)


def _random(items: Sequence[ItemOutcome]) -> Baseline:
    """The mean over all choices, which any number of random draws comes near to."""
    scores = [[fmean(each.score for each in item.arms.values())] for item in items]
    cost = fmean(each.cost for item in items for each in item.arms.values())
    count = len(items[0].arms)
    names = list(items[0].arms)
    rows = [baseline(name, items, partial(_constant, name)) for name in names]
    escalated = fmean(row.over_escalation or 0.0 for row in rows)
    return Baseline("random", mean_interval(scores), cost, 1 / count, 1.0, escalated)


def _constant(arm: str, _: ItemOutcome) -> str:
    return arm


def _always_cheapest(items: Sequence[ItemOutcome]) -> Chooser:
    return partial(_constant, min(items[0].arms, key=lambda arm: _cost(items, arm)))


def _by_size(items: Sequence[ItemOutcome]) -> Chooser:
    middle = median(len(item.question) for item in items)
    large, small = best_arm(means_of(items)), min(items[0].arms, key=lambda arm: _cost(items, arm))
    return lambda item: large if len(item.question) > middle else small


def _all(items: Sequence[ItemOutcome]) -> Expectation:
    means = means_of(items)
    return lambda _: means


def _of_family(items: Sequence[ItemOutcome]) -> Expectation:
    families: dict[str, list[ItemOutcome]] = {}
    for item in items:
        families.setdefault(item.family, []).append(item)
    means = {family: means_of(each) for family, each in families.items()}
    of_all = means_of(items)
    return lambda item: means.get(item.family, of_all)


def _nearest(items: Sequence[ItemOutcome]) -> Expectation:
    words = [Counter(item.question.lower().split()) for item in items]
    spread = Counter(word for each in words for word in each)
    weight = {word: math.log(1 + len(items) / count) for word, count in spread.items()}
    vectors = [_vector(each, weight) for each in words]

    def expected(item: ItemOutcome) -> Mapping[str, Choice]:
        own = _vector(Counter(item.question.lower().split()), weight)
        near = [sum(own.get(word, 0.0) * value for word, value in each.items()) for each in vectors]
        places = sorted(range(len(items)), key=lambda place: (-near[place], place))
        return means_of([items[place] for place in places[:NEIGHBOURS]])

    return expected


def _vector(words: Counter[str], weight: Mapping[str, float]) -> dict[str, float]:
    """TF-IDF of the words that were learnt, of length 1."""
    found = {word: count * weight[word] for word, count in words.items() if word in weight}
    length = math.sqrt(math.fsum(value * value for value in found.values()))
    return {word: value / length for word, value in found.items()} if length else {}


ORACLE, PER_FAMILY = "oracle", "best of each family"
BY_SIZE = "input size: the best arm if long, else the cheapest"
# The first is what the oracle's gap begins at.
LEARNERS: Mapping[str, Learner] = {
    "best fixed": _all,
    PER_FAMILY: _of_family,
    f"nearest neighbours, k = {NEIGHBOURS}": _nearest,
}
