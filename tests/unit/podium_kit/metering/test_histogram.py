"""Latency histograms: quantiles within 1 %, and merging that loses nothing."""

from hypothesis import given
from hypothesis import strategies as st

from podium_kit.metering import LatencyHistogram

LATENCIES = st.lists(st.floats(1e-5, 3600), min_size=1, max_size=60)


@given(LATENCIES, st.sampled_from([0.0, 0.5, 0.95, 1.0]))
def test_a_quantile_is_within_one_percent_of_the_sample_at_its_rank(
    latencies_s: list[float], share: float
) -> None:
    true_s = sorted(latencies_s)[int(share * (len(latencies_s) - 1))]
    estimate_s = LatencyHistogram.of(latencies_s).quantile_s(share)
    assert abs(estimate_s - true_s) <= 0.0101 * true_s


@given(LATENCIES, LATENCIES)
def test_merging_is_counting_everything_in_one_place(one: list[float], other: list[float]) -> None:
    merged = LatencyHistogram.of(one)
    merged.merge(LatencyHistogram.of(other))
    assert merged.counts == LatencyHistogram.of([*one, *other]).counts


def test_unlike_processes_merge_to_the_true_quantile_where_means_of_quantiles_fail() -> None:
    fast, slow = [0.1] * 90, [10.0] * 10
    merged = LatencyHistogram.of(fast)
    merged.merge(LatencyHistogram.of(slow))
    # A mean of the two medians, weighed by calls, would say 1.09 s.
    assert abs(merged.quantile_s(0.5) - 0.1) < 0.002
    assert abs(merged.quantile_s(0.95) - 10) < 0.2


def test_nothing_measured_has_the_quantile_zero() -> None:
    assert LatencyHistogram().quantile_s(0.5) == 0
