import itertools
import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podium_evaluation.statistics.comparisons import (
    discordant,
    holm,
    items_needed,
    kappa,
    mcnemar,
    sign_flips,
)
from podium_evaluation.statistics.fronts import Point, area, hull, pareto_front
from podium_evaluation.statistics.intervals import (
    accuracy_interval,
    mean_interval,
    paired_share_interval,
    proportion_interval,
    ratio_interval,
)
from podium_evaluation.statistics.measures import (
    evenness,
    gap_closed,
    pass_at_k,
    pass_hat_k,
    percentile,
    top_share,
)

counts = st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
shares = st.floats(0, 1)
points = st.lists(
    st.builds(Point, st.text("ab", min_size=1), st.integers(0, 50), st.integers(0, 50)), min_size=1
)


@given(counts)
def test_wilsons_interval_holds_the_share_and_mirrors_its_complement(pair: tuple[int, int]) -> None:
    solved, count = pair
    found = proportion_interval(solved, count)
    assert 0 <= found.lower <= found.mean <= found.upper <= 1
    other = proportion_interval(count - solved, count)
    assert math.isclose(found.lower, 1 - other.upper, abs_tol=1e-12)


@given(counts)
def test_more_of_the_same_narrows_wilsons_interval(pair: tuple[int, int]) -> None:
    solved, count = pair
    few, many = proportion_interval(solved, count), proportion_interval(solved * 4, count * 4)
    assert many.upper - many.lower < few.upper - few.lower


def test_wilsons_interval_is_that_of_the_literature() -> None:
    # Newcombe 1998, table I: 81 of 263, and 0 of 20.
    found = proportion_interval(81, 263)
    assert (round(found.lower, 4), round(found.upper, 4)) == (0.2553, 0.3662)
    assert round(proportion_interval(0, 20).upper, 4) == 0.1611


@given(st.tuples(*[st.integers(0, 40)] * 4).filter(any))
def test_the_interval_of_paired_shares_holds_the_difference_and_mirrors_itself(
    table: tuple[int, int, int, int],
) -> None:
    both, first, second, neither = table
    found = paired_share_interval(*table)
    assert -1 - 1e-9 <= found.lower <= found.mean <= found.upper <= 1 + 1e-9
    other = paired_share_interval(both, second, first, neither)
    assert math.isclose(found.lower, -other.upper, abs_tol=1e-12)


def test_the_interval_of_paired_shares_is_that_of_its_formula_worked_by_hand() -> None:
    # 38 and 48 of 50, 36 of them the same. Wilson: .6259 to .8570, and .8654 to .9890; phi -.1147.
    found = paired_share_interval(36, 2, 12, 0)
    assert found.mean == pytest.approx(0.2)
    assert found.lower == pytest.approx(0.2 - 0.1431, abs=2e-4)
    assert found.upper == pytest.approx(0.2 + 0.1404, abs=2e-4)
    # No difference in 20 items is no certainty.
    assert paired_share_interval(19, 0, 0, 1).lower < -0.1


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(shares, min_size=1, max_size=4), min_size=1, max_size=30))
def test_the_cluster_interval_holds_its_mean_and_repeats_itself(
    clusters: list[list[float]],
) -> None:
    found = mean_interval(clusters)
    assert found.lower <= found.mean + 1e-9 and found.mean <= found.upper + 1e-9
    assert found == mean_interval(clusters)
    # Repeats of an item are no more evidence: the same again changes nothing.
    assert mean_interval([[*each, *each] for each in clusters]).lower == pytest.approx(found.lower)


def test_one_trial_per_item_has_wilsons_interval_and_several_have_the_bootstraps() -> None:
    once = [[1.0], [0.0], [1.0]]
    assert accuracy_interval(once) == proportion_interval(2, 3)
    twice = [[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]
    assert accuracy_interval(twice) == mean_interval(twice)
    assert accuracy_interval([[0.5], [1.0]]) == mean_interval([[0.5], [1.0]])


def test_the_cost_of_a_solved_task_is_unknown_where_none_is_solved() -> None:
    assert ratio_interval([1, 2], [0, 0]) is None
    found = ratio_interval([0.3, 0.1, 0.2, 0.4], [1, 1, 0, 1])
    assert found is not None and found.value == pytest.approx(1 / 3)
    assert found.lower is not None and found.lower < found.value
    # With one of two solved, every fourth resample solves none: there is no upper bound.
    half = ratio_interval([1, 1], [1, 0])
    assert half is not None and half.upper is None


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemars_test_is_the_sum_of_all_splits_at_least_as_uneven(one: int, other: int) -> None:
    count = one + other
    uneven = [k for k in range(count + 1) if abs(2 * k - count) >= abs(one - other)]
    expected = sum(math.comb(count, k) for k in uneven) / 2**count
    assert mcnemar(one, other) == pytest.approx(min(1.0, expected))
    assert mcnemar(one, other) == mcnemar(other, one)


def test_mcnemars_test_counts_items_that_one_arm_alone_solves() -> None:
    first = {"a": [1.0], "b": [1.0], "c": [0.0], "of one alone": [1.0]}
    second = {"a": [0.0], "b": [1.0], "c": [0.0]}
    assert discordant(first, second) == (1, 0)
    assert discordant({"a": [1.0, 0.0]}, {"a": [1.0, 1.0]}) is None
    assert discordant({"a": [0.5]}, {"a": [1.0]}) is None


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=9))
def test_the_sign_flip_test_is_exact_where_few_items_differ(differences: list[int]) -> None:
    found = [each for each in differences if each]
    signs = list(itertools.product((-1, 1), repeat=len(found)))
    sums = [abs(sum(s * v for s, v in zip(each, found, strict=True))) for each in signs]
    expected = sum(each >= abs(sum(found)) for each in sums) / len(sums)
    assert sign_flips(differences) == pytest.approx(expected)


def test_the_sign_flip_test_of_many_items_is_never_zero() -> None:
    assert sign_flips([1.0] * 100) == pytest.approx(1 / 10_001)
    draw = Random(3)
    noise = [draw.gauss(0, 1) for _ in range(100)]
    centred = [each - sum(noise) / 100 for each in noise]
    assert sign_flips(centred) > 0.9


@given(st.dictionaries(st.integers(), shares, min_size=1, max_size=12))
def test_holms_values_keep_the_order_and_are_between_the_raw_and_bonferronis(
    raw: dict[int, float],
) -> None:
    adjusted = holm(raw)
    assert list(adjusted) == list(raw)
    for key, value in raw.items():
        assert value <= adjusted[key] <= min(1.0, value * len(raw)) + 1e-12
    for one, other in itertools.combinations(raw, 2):
        assert raw[one] > raw[other] or adjusted[one] <= adjusted[other]


def test_holms_values_are_those_of_the_textbook() -> None:
    found = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert found == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02})


def test_the_items_needed_are_those_of_the_rule_of_thumb() -> None:
    assert items_needed(0.05, 0.2) == 628
    assert items_needed(-0.05, 0.2) == 628
    for difference, share in ((0, 0.2), (0.3, 0.2), (0.1, 2)):
        with pytest.raises(ValueError, match="discordant"):
            items_needed(difference, share)


verdicts = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60)


@given(verdicts)
def test_kappa_is_symmetric_and_one_for_equal_verdicts(pairs: list[tuple[bool, bool]]) -> None:
    first, second = zip(*pairs, strict=True)
    found = kappa(first, second)
    assert found == kappa(second, first)
    assert found is None or -1 <= found <= 1
    assert kappa(first, first) == (None if len(set(first)) == 1 else 1.0)


def test_kappa_is_that_of_the_textbook() -> None:
    # Of 50 grant proposals: both yes 20, both no 15, apart 5 and 10.
    first = [1] * 25 + [0] * 25
    second = [1] * 20 + [0] * 5 + [1] * 10 + [0] * 15
    assert kappa(first, second) == pytest.approx(0.4)


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_passes_count_the_choices_of_k_trials(pair: tuple[int, int]) -> None:
    solved, trials = pair
    outcomes = [1] * solved + [0] * (trials - solved)
    for k in range(1, trials + 1):
        chosen = list(itertools.combinations(outcomes, k))
        assert pass_hat_k(solved, trials, k) == pytest.approx(sum(map(all, chosen)) / len(chosen))
        assert pass_at_k(solved, trials, k) == pytest.approx(sum(map(any, chosen)) / len(chosen))


def test_passes_of_more_trials_than_there_are_do_not_exist() -> None:
    with pytest.raises(ValueError, match="k = 3"):
        pass_hat_k(1, 2, 3)


def test_the_gap_is_closed_by_the_oracle_and_open_for_the_best_fixed_arm() -> None:
    assert gap_closed(0.8, 0.8, 0.9) == 0
    assert gap_closed(0.9, 0.8, 0.9) == pytest.approx(1)
    assert gap_closed(0.7, 0.8, 0.9) == pytest.approx(-1)
    assert gap_closed(0.9, 0.9, 0.9) is None


def test_a_collapsed_choice_is_uneven_and_an_even_one_is_not() -> None:
    assert (evenness("aaaa", 4), top_share("aaaa")) == (0, 1)
    assert evenness("abcd", 4) == pytest.approx(1)
    assert evenness("ab", 1) is None
    assert top_share("aaab") == 0.75


@given(st.lists(st.integers(-9, 9), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_a_value_that_its_share_does_not_exceed(
    values: list[int], share: float
) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(each <= found for each in values) >= share * len(values) - 1e-9


@given(points)
def test_the_front_dominates_every_point_and_none_of_its_own(found: list[Point]) -> None:
    front = pareto_front(found)
    for point in found:
        assert any(each.cost <= point.cost and each.score >= point.score for each in front)
    assert all(a.cost < b.cost and a.score < b.score for a, b in itertools.pairwise(front))
    corners = hull(found)
    assert set(corners) <= set(front)
    slopes = [(b.score - a.score) / (b.cost - a.cost) for a, b in itertools.pairwise(corners)]
    assert all(a > b for a, b in itertools.pairwise(slopes))


@given(points, st.integers(0, 30), st.integers(31, 60))
def test_the_area_grows_with_more_arms_and_stays_within_their_scores(
    found: list[Point], low: int, high: int
) -> None:
    whole = area(found, low, high)
    assert 0 <= whole <= max(each.score for each in found) + 1e-9
    assert area(found[:1], low, high) <= whole + 1e-9


def test_the_area_of_two_arms_is_that_of_their_mixture() -> None:
    arms = [Point("small", 1, 0.5), Point("large", 3, 0.9)]
    assert area(arms, 1, 3) == pytest.approx(0.7)
    assert area(arms, 0, 4) == pytest.approx((0 + 2 * 0.7 + 0.9) / 4)
    assert area([Point("large", 3, 0.9)], 0, 1) == 0
    with pytest.raises(ValueError, match="no range"):
        area(arms, 1, 1)
