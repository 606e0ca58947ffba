"""A test of two arms that may be looked at after every episode, and stopped at any look.

Scores are from 0 to 1, with a mean in each arm that does not change. With s and f the sums of an
arm's scores and of what they lack to 1, its Bernoulli likelihood at rate p is L(p) = p^s (1-p)^f.
The statistic for the hypothesis that the rates differ by d is

    T(d) = m(a) m(b) / max_p L_a(p) L_b(p + d),    m = integral of L(p) dp = B(1 + s, 1 + f)

a mixture sequential probability ratio (Robbins 1970; Johari, Pekelis and Walsh, "Always valid
inference", 2015) with uniform priors on both rates. Its denominator is the largest over all rates
that the hypothesis allows, as in universal inference (Wasserman, Ramdas and Balakrishnan 2020), so
T(d) is at most a nonnegative supermartingale that begins at 1, also for scores between 0 and 1, by
the convexity of exp. By Ville's inequality the chance that T(d) ever reaches 1/alpha is at most
alpha where the rates differ by d, at whatever moments anyone looks, and for any share of an arm.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

ALPHA = 0.05
# Of the bounds of the difference; they are rounded outwards.
STEP = 0.0025
# A third of the interval is left after each pair of steps.
GOLDEN = (math.sqrt(5) - 1) / 2
SEARCH_STEPS = 40


@dataclass(frozen=True)
class ArmScores:
    count: int
    """Scored episodes."""
    total: float
    """The sum of their scores."""

    @property
    def lacking(self) -> float:
        return max(self.count - self.total, 0.0)


@dataclass(frozen=True)
class SequentialResult:
    difference: float
    """The candidate's mean score less the baseline's; 0 while one of them has none."""
    lower: float
    upper: float
    """The upper bound, with certainty 1 - ALPHA over all looks together."""
    p_value: float
    """Always valid: of the hypothesis that there is no difference."""

    @property
    def decided(self) -> bool:
        return self.lower > 0 or self.upper < 0


def p_value(baseline: ArmScores, candidate: ArmScores) -> float:
    """1 / T(0), whose denominator is largest at the rate of both arms together."""
    both = ArmScores(baseline.count + candidate.count, baseline.total + candidate.total)
    evidence = _log_marginal(baseline) + _log_marginal(candidate)
    return math.exp(min(0.0, _at(both, both.total / max(both.count, 1)) - evidence))


def compare(baseline: ArmScores, candidate: ArmScores) -> SequentialResult:
    difference = 0.0
    if baseline.count and candidate.count:
        difference = candidate.total / candidate.count - baseline.total / baseline.count
    evidence = _log_marginal(baseline) + _log_marginal(candidate)
    limit = math.log(1 / ALPHA)

    def holds(shift: float) -> bool:
        return evidence - _log_likelihood(baseline, candidate, shift) < limit

    lower = -_bound(lambda shift: holds(-shift), -difference)
    upper = _bound(holds, difference)
    return SequentialResult(difference, lower, upper, p_value(baseline, candidate))


def _bound(holds: Callable[[float], bool], start: float) -> float:
    """The largest shift that is not ruled out; all beyond one that is are, too."""
    low, high = max(-1.0, min(1.0, start)), 1.0
    if holds(high):
        return high
    while high - low > STEP:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return high


def _log_marginal(arm: ArmScores) -> float:
    one, other = 1 + arm.total, 1 + arm.lacking
    return math.lgamma(one) + math.lgamma(other) - math.lgamma(one + other)


def _log_likelihood(baseline: ArmScores, candidate: ArmScores, shift: float) -> float:
    """The largest over the baseline's rate, in which it is concave: golden section search."""
    low, high = max(0.0, -shift), min(1.0, 1.0 - shift)

    def at(rate: float) -> float:
        return _at(baseline, rate) + _at(candidate, rate + shift)

    for _ in range(SEARCH_STEPS):
        width = (high - low) * GOLDEN
        one, other = high - width, low + width
        low, high = (one, high) if at(one) < at(other) else (low, other)
    return max(at(low), at((low + high) / 2), at(high))


def _at(arm: ArmScores, rate: float) -> float:
    rate = min(max(rate, 0.0), 1.0)
    found = 0.0
    for amount, share in ((arm.total, rate), (arm.lacking, 1 - rate)):
        if amount:
            found += amount * math.log(share) if share > 0 else -math.inf
    return found
