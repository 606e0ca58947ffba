"""The posterior of a tool's competence: what counts, how much, and for how long."""

from hypothesis import given
from hypothesis import strategies as st

from episodes.competence.posterior import (
    FULL_SIMILARITY,
    HALF_LIFE,
    Posterior,
    Result,
    posterior,
    weight,
)

SIMILARITIES = st.floats(-1, 1)
SCORES = st.floats(0, 1)
RESULTS = st.lists(st.builds(Result, SIMILARITIES, SCORES), max_size=60)
# The sum of all weights that fade by half every ten tasks.
MOST = 1 / (1 - 0.5 ** (1 / HALF_LIFE))
RIGHT, WRONG = Result(1.0, 1.0), Result(1.0, 0.0)
UNLIKE = 0.2


@given(RESULTS)
def test_the_probability_lies_between_never_and_always(results: list[Result]) -> None:
    found = posterior(results)
    assert 0 < found.probability < 1
    assert 0 <= found.right <= found.similar_tasks + 1e-9
    assert found.similar_tasks <= MOST + 1


@given(RESULTS, st.floats(FULL_SIMILARITY, 1))
def test_a_right_answer_raises_the_probability_and_a_wrong_one_lowers_it(
    results: list[Result], similarity: float
) -> None:
    before = posterior(results).probability
    assert posterior([Result(similarity, 1.0), *results]).probability > before
    assert posterior([Result(similarity, 0.0), *results]).probability < before


@given(SIMILARITIES, SIMILARITIES)
def test_a_more_similar_task_never_counts_less(one: float, other: float) -> None:
    assert weight(min(one, other)) <= weight(max(one, other)) <= 1


def test_without_results_a_tool_is_as_likely_right_as_wrong() -> None:
    assert posterior([]) == Posterior(0.0, 0.0, 0.5)


def test_tasks_of_another_kind_are_the_prior_and_no_similar_tasks() -> None:
    found = posterior([Result(UNLIKE, 1.0)] * 500)
    assert found.similar_tasks == 0
    assert 0.9 < found.probability < 1
    # A few results in similar tasks outweigh hundreds in others.
    assert posterior([*[WRONG] * 10, *[Result(UNLIKE, 1.0)] * 500]).probability < 0.25


def test_a_result_counts_half_after_a_half_life_of_newer_ones() -> None:
    newer = [WRONG] * int(HALF_LIFE)
    assert posterior([*newer, RIGHT]).right == 0.5 * posterior([RIGHT]).right


@given(st.integers(0, 500))
def test_a_tool_that_changes_is_known_for_it_within_thirty_tasks(before: int) -> None:
    worse = posterior([*[WRONG] * 30, *[RIGHT] * before])
    better = posterior([*[RIGHT] * 30, *[WRONG] * before])
    assert worse.probability < 0.2 < 0.8 < better.probability
    assert worse.right / worse.similar_tasks < 0.15


def test_newer_tasks_of_another_kind_do_not_fade_a_record() -> None:
    others = [Result(UNLIKE, 0.0)] * 100
    mixed = [result for pair in zip(others[:8], [RIGHT] * 8, strict=True) for result in pair]
    assert round(posterior([*others, *mixed]).right, 6) == round(posterior([RIGHT] * 8).right, 6)
