import math
import random
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episodes.evaluations.sequential import ALPHA, STEP, ArmScores, compare, p_value

EPISODES = 400
RUNS = 400


def first_decision(
    seed: int, rates: tuple[float, float], *, share: float = 0.5, fractional: bool = False
) -> tuple[int, bool]:
    """The episode after which a look decided, 0 for none, and whether it called the arm better."""
    chance = random.Random(seed)
    arms = [ArmScores(0, 0.0), ArmScores(0, 0.0)]
    for number in range(1, EPISODES + 1):
        arm = int(chance.random() < share)
        score = float(chance.random() < rates[arm])
        if fractional:
            # Of the same mean, between 0 and 1.
            score = chance.betavariate(2 * rates[arm], 2 * (1 - rates[arm]))
        arms[arm] = ArmScores(arms[arm].count + 1, arms[arm].total + score)
        if p_value(*arms) < ALPHA:
            return number, compare(*arms).lower > -STEP
    return 0, False


@pytest.mark.parametrize(
    ("rate", "share", "fractional"),
    [(0.5, 0.5, False), (0.9, 0.1, False), (0.3, 0.5, True)],
)
def test_looking_after_every_episode_errs_no_oftener_than_stated(
    rate: float, share: float, fractional: bool
) -> None:
    wrong = sum(
        first_decision(seed, (rate, rate), share=share, fractional=fractional)[0] > 0
        for seed in range(RUNS)
    )
    # Three standard errors above alpha: a test that is not valid at every look errs far oftener.
    assert wrong / RUNS <= ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / RUNS)


def test_a_fixed_test_that_is_looked_at_as_often_errs_far_oftener() -> None:
    """Without which the bound above would say nothing."""
    wrong = 0
    for seed in range(RUNS):
        chance = random.Random(seed)
        steps = (chance.choice((-1, 1)) for _ in range(EPISODES))
        sums = enumerate(accumulate(steps), 1)
        wrong += any(abs(total) > 1.96 * math.sqrt(count) for count, total in sums if count > 10)
    assert wrong / RUNS > 4 * ALPHA


def test_a_large_difference_is_decided_early_and_in_its_direction() -> None:
    found = [first_decision(seed, (0.5, 0.9)) for seed in range(50)]
    decided = [number for number, better in found if number and better]
    assert len(decided) >= 49
    assert sorted(decided)[25] < EPISODES / 3


def test_nothing_is_known_before_the_first_scores() -> None:
    found = compare(ArmScores(0, 0.0), ArmScores(0, 0.0))
    assert (found.lower, found.upper, found.difference, found.p_value) == (-1, 1, 0, 1)
    # Hardly any rate is above that of a baseline which never failed.
    found = compare(ArmScores(100, 100.0), ArmScores(0, 0.0))
    assert (found.lower, found.p_value) == (-1, 1) and 0 < found.upper < 0.1


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 300),
    st.integers(0, 300),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_the_interval_holds_the_estimate_and_mirrors_when_the_arms_change_places(
    first: int, second: int, one: float, other: float
) -> None:
    baseline, candidate = ArmScores(first, first * one), ArmScores(second, second * other)
    found, mirrored = compare(baseline, candidate), compare(candidate, baseline)
    assert -1 <= found.lower <= found.difference <= found.upper <= 1
    assert 0 <= found.p_value <= 1
    assert found.lower == pytest.approx(-mirrored.upper, abs=0.01)
    assert found.p_value == pytest.approx(mirrored.p_value, abs=1e-6)
    assert found.decided <= (found.p_value < ALPHA)
