"""The paper's reward: monotone in what is preferred, nothing for a wrong answer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium_training.grpo.objective.rewards import (
    Features,
    Preferences,
    SpreadFloors,
    normalised,
    rewards,
)

WEIGHTS = st.floats(0, 1)
PREFERENCES = st.builds(
    Preferences, st.tuples(WEIGHTS, WEIGHTS), outcome=WEIGHTS, compute=WEIGHTS, latency=WEIGHTS
)
EPISODES = st.builds(
    Features,
    st.tuples(st.integers(0, 5), st.integers(0, 5)),
    solved=st.booleans(),
    cost=st.floats(0, 10),
    latency_s=st.floats(0, 100),
)
GROUPS = st.lists(EPISODES, min_size=1, max_size=8)


def make_episode(
    calls: tuple[int, ...] = (0, 0), cost: float = 0.0, latency_s: float = 0.0, solved: bool = True
) -> Features:
    return Features(calls, solved, cost, latency_s)


def prefer(
    *tools: float, outcome: float = 0.0, compute: float = 0.0, latency: float = 0.0
) -> Preferences:
    return Preferences(tools or (0.0, 0.0), outcome, compute, latency)


@given(GROUPS, PREFERENCES)
def test_a_wrong_answer_earns_nothing_and_a_right_one_never_less(
    group: list[Features], preferences: Preferences
) -> None:
    for episode, reward in zip(group, rewards(group, preferences), strict=True):
        assert reward >= 0 if episode.solved else reward == 0


@given(GROUPS, PREFERENCES, st.randoms())
def test_the_order_of_a_group_does_not_matter(
    group: list[Features], preferences: Preferences, random: object
) -> None:
    order = list(range(len(group)))
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = rewards([group[index] for index in order], preferences)
    assert shuffled == pytest.approx(rewards(group, preferences)[order])


@given(GROUPS, st.builds(SpreadFloors, cost=st.floats(0, 20), latency_s=st.floats(0, 200)))
def test_every_normalised_element_is_between_nothing_and_one(
    group: list[Features], floors: SpreadFloors
) -> None:
    scaled = normalised(group, floors)
    assert np.all((scaled >= 0) & (scaled <= 1))


def test_cheaper_earns_more_when_cost_matters() -> None:
    group = [make_episode(cost=cost) for cost in (0.01, 0.02, 0.05, 0.10)]
    scored = rewards(group, prefer(compute=1.0))
    assert list(scored) == pytest.approx([1.0, 8 / 9, 5 / 9, 0.0])


def test_faster_earns_more_when_time_matters() -> None:
    group = [make_episode(latency_s=seconds) for seconds in (1.0, 2.0, 5.0)]
    assert list(rewards(group, prefer(latency=1.0))) == pytest.approx([1.0, 0.75, 0.0])


def test_differences_below_a_floor_count_in_proportion() -> None:
    floors = SpreadFloors(cost=0.01, latency_s=10.0)
    noise = [make_episode(cost=0.001, latency_s=4.0), make_episode(cost=0.002, latency_s=3.0)]
    both = prefer(compute=1.0, latency=1.0)
    assert list(rewards(noise, both)) == pytest.approx([1.0, 1.0]), "stretched to whole weights"
    assert list(rewards(noise, both, floors)) == pytest.approx([1.9, 1.9])
    assert list(rewards(noise, prefer(compute=1.0), floors)) == pytest.approx([1.0, 0.9])
    far = [make_episode(cost=cost) for cost in (0.01, 0.02, 0.05)]
    assert list(rewards(far, both, SpreadFloors(cost=0.01))) == pytest.approx([1.0, 0.75, 0.0])


def test_a_preferred_tool_earns_more_and_not_calling_it_counts_as_zero_calls() -> None:
    group = [make_episode((count, 1)) for count in (0, 2, 3)]
    assert list(rewards(group, prefer(1.0, 0.0))) == pytest.approx([0.0, 2 / 3, 1.0])


def test_a_feature_all_share_earns_nothing() -> None:
    group = [make_episode((1, 1), cost=0.1), make_episode((1, 1), cost=0.1)]
    assert list(rewards(group, prefer(1.0, 1.0, outcome=1.0, compute=1.0))) == [0.0, 0.0]


def test_the_outcome_separates_right_from_wrong() -> None:
    group = [make_episode(), make_episode(solved=False)]
    assert list(rewards(group, prefer(outcome=1.0))) == [1.0, 0.0]


def test_the_papers_example_prefers_its_own_tools_whatever_they_cost() -> None:
    """Appendix F: local search and one's own models are wanted, outcome and cost weigh nothing."""
    preferences = Preferences((0, 1, 1, 1, 0, 0), outcome=0, compute=0, latency=0)
    group = [
        Features((2, 0, 0, 0, 0, 1), solved=True, cost=0.01, latency_s=5),
        Features((0, 2, 1, 1, 0, 0), solved=True, cost=0.30, latency_s=60),
        Features((0, 4, 2, 0, 0, 0), solved=False, cost=0.05, latency_s=9),
    ]
    assert list(rewards(group, preferences)) == pytest.approx([0.0, 0.5 + 0.5 + 1.0, 0.0])


@pytest.mark.parametrize("weight", [-0.1, 1.1, float("nan")])
def test_a_weight_outside_zero_to_one_is_rejected(weight: float) -> None:
    with pytest.raises(ValueError, match="weights"):
        prefer(compute=weight)


def test_episodes_about_other_tools_are_rejected() -> None:
    with pytest.raises(ValueError, match="tools"):
        rewards([make_episode((1,))], prefer(1.0, 0.0))
