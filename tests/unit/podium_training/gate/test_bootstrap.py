import itertools
import math
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podium_training.gate import paired_interval

DIFFERENCES = st.lists(st.floats(-1, 1), min_size=1, max_size=30)


def enumerated(values: list[float], confidence: float) -> tuple[float, float]:
    """Bounds over all len(values) ** len(values) resamples, each as likely as any other."""
    means = [fmean(chosen) for chosen in itertools.product(values, repeat=len(values))]
    return float(np.quantile(means, 1 - confidence)), float(np.quantile(means, confidence))


@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_bounds_are_those_of_all_resamples(confidence: float) -> None:
    values = [-0.4, 0.0, 0.1, 0.35, 0.8, 0.95]
    lower, upper = enumerated(values, confidence)
    found = paired_interval(values, confidence)
    # 46,656 resamples lie closely; 10,000 drawn ones find their quantiles nearly.
    assert found.lower == pytest.approx(lower, abs=0.02)
    assert found.upper == pytest.approx(upper, abs=0.02)


def test_two_pairs_by_hand() -> None:
    # Means of (0, 0), (0, 1), (1, 0), (1, 1): 0 with chance 1/4, so it is the lower bound.
    found = paired_interval([0.0, 1.0])
    assert (found.mean, found.lower, found.upper) == (0.5, 0.0, 1.0)


def test_equal_differences_leave_no_doubt() -> None:
    found = paired_interval([0.25] * 7)
    assert (found.mean, found.lower, found.upper) == (0.25, 0.25, 0.25)


def test_bounds_approach_those_of_the_normal_distribution() -> None:
    values = np.random.default_rng(1).normal(0.3, 1.0, 2000)
    found = paired_interval(values.tolist())
    error = 1.6449 * values.std() / math.sqrt(len(values))
    assert found.lower == pytest.approx(values.mean() - error, abs=0.1 * error)
    assert found.upper == pytest.approx(values.mean() + error, abs=0.1 * error)


@given(DIFFERENCES)
@settings(max_examples=20)
def test_bounds_enclose_the_mean_and_stay_within_the_values(values: list[float]) -> None:
    found = paired_interval(values)
    assert min(values) - 1e-9 <= found.lower <= found.upper <= max(values) + 1e-9


@given(DIFFERENCES)
@settings(max_examples=10)
def test_swapping_the_policies_mirrors_the_interval(values: list[float]) -> None:
    ours, theirs = paired_interval(values), paired_interval([-value for value in values])
    assert ours.lower == pytest.approx(-theirs.upper, abs=1e-9)
    assert ours.mean == pytest.approx(-theirs.mean, abs=1e-9)


def test_no_pairs_are_rejected() -> None:
    with pytest.raises(ValueError, match="no pairs"):
        paired_interval([])
