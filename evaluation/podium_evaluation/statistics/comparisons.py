"""Tests of the difference of two arms, and the number of items that they need."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import TypeVar

Key = TypeVar("Key")


def mcnemar(only_first: int, only_second: int) -> float:
    """The exact p-value of McNemar's test (1947) on the items that one arm alone solved:
    P = min(1, 2 · the smaller tail of Binomial(b + c, ½)).
    """
    if only_first < 0 or only_second < 0:
        raise ValueError("counts are 0 or more")
    count = only_first + only_second
    tail = sum(math.comb(count, each) for each in range(min(only_first, only_second) + 1))
    return float(min(Fraction(1), Fraction(2 * tail, 2**count)))


def discordant(
    first: Mapping[Key, Sequence[float]], second: Mapping[Key, Sequence[float]]
) -> tuple[int, int] | None:
    """Counts the items that one arm alone solved; None where McNemar's test does not fit.

    It does not where items were tried several times or have partial scores.
    """
    shared = first.keys() & second.keys()
    values = [(*first[key], *second[key]) for key in shared]
    if any(len(pair) != 2 or not set(pair) <= {0.0, 1.0} for pair in values):
        return None
    return sum(a > b for a, b in values), sum(b > a for a, b in values)


def sign_flips(differences: Sequence[float], rounds: int = 10_000, seed: int = 0) -> float:
    """The two-sided p-value of the mean difference under random signs (Fisher 1935).

    Exact up to 12 items that differ, else estimated, and never 0: (1 + hits) / (1 + rounds).
    """
    found = [each for each in differences if each]
    if not found:
        return 1.0
    # Slow to import, and needed here alone.
    import numpy as np  # noqa: PLC0415

    values = np.asarray(found, dtype=np.float64)
    # Sums of the same numbers in another order may differ in the last digit.
    extreme = abs(float(values.sum())) * (1 - 1e-9)
    if len(values) <= 12:
        places = np.arange(2 ** len(values))[:, None] >> np.arange(len(values)) & 1
        return float((np.abs((places * 2 - 1) @ values) >= extreme).mean())
    draw, hits = np.random.default_rng(seed), 0
    for _ in range(rounds // 500):
        signs = draw.integers(0, 2, (500, len(values)), dtype=np.int8) * 2 - 1
        hits += int((np.abs(signs @ values) >= extreme).sum())
    return (1 + hits) / (1 + rounds // 500 * 500)


def holm(p_values: Mapping[Key, float]) -> dict[Key, float]:
    """Adjusted p-values (Holm 1979): of m, the k-th smallest times m - k + 1, never falling."""
    adjusted: dict[Key, float] = {}
    largest = 0.0
    ordered = sorted(p_values.items(), key=lambda pair: pair[1])
    for place, (key, value) in enumerate(ordered):
        largest = max(largest, min(1.0, value * (len(ordered) - place)))
        adjusted[key] = largest
    return {key: adjusted[key] for key in p_values}


def items_needed(
    difference: float, discordant_share: float, alpha: float = 0.05, power: float = 0.8
) -> int:
    """Items after which a difference of accuracies is seen: (z₁ + z₂)² · p_d / δ² (2411.00640).

    z₁ is the normal quantile of 1 - alpha / 2, z₂ that of the power, and p_d the share of items
    that one arm alone solves.
    """
    if not 0 < abs(difference) <= discordant_share <= 1:
        raise ValueError("the difference is more than 0, and at most the discordant share")
    normal = NormalDist()
    z = normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(power)
    return math.ceil(z * z * discordant_share / difference**2)


def kappa(first: Sequence[object], second: Sequence[object]) -> float | None:
    """Cohen's κ (1960) of two judges of the same answers: (p_o - p_e) / (1 - p_e).

    None where both always give one and the same verdict: chance alone agrees as much.
    """
    if not first or len(first) != len(second):
        raise ValueError("both judge the same answers, one at least")
    count = len(first)
    observed = Fraction(sum(a == b for a, b in zip(first, second, strict=True)), count)
    verdicts = set(first) | set(second)
    chance = sum(
        Fraction(list(first).count(each) * list(second).count(each), count**2) for each in verdicts
    )
    return None if chance == 1 else float((observed - chance) / (1 - chance))
