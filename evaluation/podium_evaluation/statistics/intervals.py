"""Two-sided intervals of what an arm is measured to do. Repeats of an item are no more evidence
than the item is, so they are averaged first and items are resampled: clusters of one question.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean

from podium_training.gate import Interval, paired_interval
from podium_training.gate.bootstrap import RESAMPLES

CONFIDENCE = 0.95


def proportion_interval(solved: int, count: int, confidence: float = CONFIDENCE) -> Interval:
    """Wilson's interval (1927) of a share: (p + z²/2n ± z√(p(1-p)/n + z²/4n²)) / (1 + z²/n).

    Raises ValueError without trials.
    """
    if not 0 <= solved <= count or not count:
        raise ValueError(f"{solved} of {count} is no share")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, spread = solved / count, z * z / count
    middle = (share + spread / 2) / (1 + spread)
    width = z * math.sqrt(share * (1 - share) / count + spread / (4 * count)) / (1 + spread)
    # At the ends the bound is the share itself, which a float may miss.
    lower = 0.0 if solved == 0 else middle - width
    return Interval(share, lower, 1.0 if solved == count else middle + width)


def paired_share_interval(
    both: int, only_first: int, only_second: int, neither: int, confidence: float = CONFIDENCE
) -> Interval:
    """Newcombe's interval (1998, method 10) of the second share less the first, of the same items.

    Built from Wilson's, so that arms that agree on few items are not taken to be surely equal, as
    every resample of no difference would say. Raises ValueError without items.
    """
    count = both + only_first + only_second + neither
    first = proportion_interval(both + only_first, count, confidence)
    second = proportion_interval(both + only_second, count, confidence)
    margins = (both + only_first) * (only_second + neither)
    margins *= (both + only_second) * (only_first + neither)
    excess = float(both * neither - only_first * only_second)
    if excess > 0:
        excess = max(excess - count / 2, 0.0)
    phi = excess / math.sqrt(margins) if margins else 0.0
    difference = second.mean - first.mean
    below = _joined(second.mean - second.lower, first.upper - first.mean, phi)
    above = _joined(second.upper - second.mean, first.mean - first.lower, phi)
    return Interval(difference, difference - below, difference + above)


def _joined(one: float, other: float, phi: float) -> float:
    return math.sqrt(max(one * one - 2 * phi * one * other + other * other, 0.0))


def mean_interval(
    clusters: Sequence[Sequence[float]], confidence: float = CONFIDENCE, seed: int = 0
) -> Interval:
    """Percentile bootstrap of the mean over clusters, such as an item's repeats.

    Raises ValueError without any.
    """
    # Its bounds are one-sided; each gets half of the error.
    return paired_interval([fmean(each) for each in clusters], (1 + confidence) / 2, seed)


def accuracy_interval(
    clusters: Sequence[Sequence[float]], confidence: float = CONFIDENCE, seed: int = 0
) -> Interval:
    """Wilson's interval where every item has one trial, right or wrong; else the bootstrap's."""
    scores = [score for cluster in clusters for score in cluster]
    if len(scores) == len(clusters) and set(scores) <= {0.0, 1.0}:
        return proportion_interval(round(sum(scores)), len(scores), confidence)
    return mean_interval(clusters, confidence, seed)


@dataclass(frozen=True)
class Ratio:
    """A ratio of sums, such as cost per solved task; a bound that is infinite is None."""

    value: float
    lower: float | None
    upper: float | None


def ratio_interval(
    above: Sequence[float],
    below: Sequence[float],
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Ratio | None:
    """Bootstrap of Σ above / Σ below over items; None where nothing is below the line."""
    if len(above) != len(below):
        raise ValueError(f"{len(above)} and {len(below)} values are no pairs")
    total = math.fsum(below)
    if total <= 0:
        return None
    # Slow to import, and needed here alone.
    import numpy as np  # noqa: PLC0415

    numerator, denominator = np.asarray(above, float), np.asarray(below, float)
    draw = np.random.default_rng(seed)
    ratios = []
    for _ in range(RESAMPLES // 500):
        places = draw.integers(0, len(numerator), (500, len(numerator)))
        sums = denominator[places].sum(axis=1)
        tops = numerator[places].sum(axis=1)
        ratios.append(np.divide(tops, sums, out=np.full(500, np.inf), where=sums > 0))
    tail = (1 - confidence) / 2
    found = np.quantile(np.concatenate(ratios), [tail, 1 - tail], method="inverted_cdf")
    lower, upper = (float(each) if math.isfinite(each) else None for each in found)
    return Ratio(math.fsum(above) / total, lower, upper)
