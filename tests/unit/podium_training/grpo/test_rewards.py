"""Rewards, advantages and adherence to preferences."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from podium.common.v1 import failure_pb2
from podium.registry.v1 import policy_pb2
from podium_training.grpo.data.convert import episode_from_proto
from podium_training.grpo.data.episodes import Episode, Limits
from podium_training.grpo.metrics.batch import adherence_metrics
from podium_training.grpo.objective.advantages import GROUP_ESTIMATORS, Advantage, batch_std, gdpo
from podium_training.grpo.objective.rewards import (
    Features,
    Preferences,
    RewardRules,
    normalised,
    rewards,
)
from unit.podium_training.grpo.builders import make_trajectory

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


@given(GROUPS, st.builds(RewardRules, cost=st.floats(0, 20), latency_s=st.floats(0, 200)))
def test_every_normalised_element_is_between_nothing_and_one(
    group: list[Features], rules: RewardRules
) -> None:
    scaled = normalised(group, rules)
    assert np.all((scaled >= 0) & (scaled <= 1))


def test_cheaper_earns_more_when_cost_matters() -> None:
    group = [make_episode(cost=cost) for cost in (0.01, 0.02, 0.05, 0.10)]
    scored = rewards(group, prefer(compute=1.0))
    assert list(scored) == pytest.approx([1.0, 8 / 9, 5 / 9, 0.0])


def test_faster_earns_more_when_time_matters() -> None:
    group = [make_episode(latency_s=seconds) for seconds in (1.0, 2.0, 5.0)]
    assert list(rewards(group, prefer(latency=1.0))) == pytest.approx([1.0, 0.75, 0.0])


def test_differences_below_a_floor_count_in_proportion() -> None:
    rules = RewardRules(cost=0.01, latency_s=10.0)
    noise = [make_episode(cost=0.001, latency_s=4.0), make_episode(cost=0.002, latency_s=3.0)]
    both = prefer(compute=1.0, latency=1.0)
    assert list(rewards(noise, both)) == pytest.approx([1.0, 1.0]), "stretched to whole weights"
    assert list(rewards(noise, both, rules)) == pytest.approx([1.9, 1.9])
    assert list(rewards(noise, prefer(compute=1.0), rules)) == pytest.approx([1.0, 0.9])
    far = [make_episode(cost=cost) for cost in (0.01, 0.02, 0.05)]
    assert list(rewards(far, both, RewardRules(cost=0.01))) == pytest.approx([1.0, 0.75, 0.0])


def test_calls_that_found_their_tool_unavailable_cost_their_share_of_the_reward() -> None:
    solved = [
        Features((1, 1), solved=True, cost=0.0, latency_s=0.0, unavailable_share=share)
        for share in (0.0, 0.5, 1.0)
    ]
    group = [*solved, make_episode((1, 1), solved=False)]
    outcome = prefer(outcome=1.0)
    assert list(rewards(group, outcome)) == [1.0, 1.0, 1.0, 0.0], "the paper's"
    penalised = rewards(group, outcome, RewardRules(unavailable=0.3))
    assert list(penalised) == pytest.approx([1.0, 0.85, 0.7, 0.0])


def test_replies_that_could_not_be_read_cost_their_share_of_the_reward() -> None:
    group = [
        Features((1, 1), solved=True, cost=0.0, latency_s=0.0, malformed_share=share)
        for share in (0.0, 0.5)
    ]
    group.append(make_episode((1, 1), solved=False))
    outcome = prefer(outcome=1.0)
    assert list(rewards(group, outcome)) == [1.0, 1.0, 0.0], "the paper's"
    penalised = rewards(group, outcome, RewardRules(malformed=0.4))
    assert list(penalised) == pytest.approx([1.0, 0.8, 0.0])


def test_an_overloaded_tool_counts_as_unavailable_and_a_wrong_argument_does_not() -> None:
    trajectory = make_trajectory()
    kinds = [failure_pb2.FAILURE_KIND_RATE_LIMITED, failure_pb2.FAILURE_KIND_INVALID_ARGUMENTS]
    for kind in kinds:
        call = trajectory.turns[0].tool_invocations.add()
        call.observation.failure.kind = kind
    calls = sum(len(turn.tool_invocations) for turn in trajectory.turns)
    features = episode_from_proto(trajectory, Limits(vocabulary=64)).features
    assert features.unavailable_share == pytest.approx(1 / calls)


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


REWARDS = torch.tensor([1.0, 0.0, 0.0, 1.0])
ALIKE = torch.full((4,), 0.5)
STD = (1 / 3) ** 0.5
TABLE = {
    Advantage.GROUP_MEAN: [0.5, -0.5, -0.5, 0.5],
    Advantage.GROUP_STD: [0.5 / (STD + 1e-4) * s for s in (1, -1, -1, 1)],
    Advantage.RLOO: [2 / 3, -2 / 3, -2 / 3, 2 / 3],
    Advantage.PAPER: [0.5 / (STD + 1e-6) * s for s in (1, -1, -1, 1)],
    Advantage.SOLVED: [1.0, 0.0, 0.0, 1.0],
}
COMPARING = [each for each in GROUP_ESTIMATORS if each is not Advantage.SOLVED]


@pytest.mark.parametrize("estimator", list(GROUP_ESTIMATORS))
def test_an_estimator_gives_what_its_formula_says(estimator: Advantage) -> None:
    found = GROUP_ESTIMATORS[estimator](REWARDS)
    assert found.tolist() == pytest.approx(TABLE[estimator], rel=1e-5)


@pytest.mark.parametrize("estimator", COMPARING)
def test_members_that_earn_the_same_are_equally_good(estimator: Advantage) -> None:
    assert GROUP_ESTIMATORS[estimator](ALIKE).tolist() == [0.0] * 4


def test_the_papers_advantage_is_clipped() -> None:
    outlier = torch.tensor([100.0, *[0.0] * 15])
    assert GROUP_ESTIMATORS[Advantage.PAPER](outlier).max() == 3.0


def test_the_batchs_deviation_is_that_of_all_groups_however_uneven() -> None:
    # Of 1 0 0 1 2 0: mean 2/3, squares 10/3, variance (10/3) / 5.
    spread = (2 / 3) ** 0.5 + 1e-4
    large, small = batch_std([REWARDS, torch.tensor([2.0, 0.0])])
    assert large.tolist() == pytest.approx([s * 0.5 / spread for s in (1, -1, -1, 1)], rel=1e-5)
    assert small.tolist() == pytest.approx([1 / spread, -1 / spread], rel=1e-5)


def test_components_are_normalised_in_their_group_and_their_sums_over_the_batch() -> None:
    two = torch.tensor([[1.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    three = torch.tensor([[1.0], [0.0], [0.0]], dtype=torch.float64)
    weights = [torch.tensor(each, dtype=torch.float64) for each in ([1.0, 0.5], [1.0])]
    # Sums: 1.5 / sqrt(2) and its negative; 2, -1, -1 over sqrt(3). Variance (2.25 + 2) / 4.
    first, second = gdpo([two, three], weights)
    assert first.tolist() == pytest.approx([1.02899, -1.02899], rel=1e-3)
    assert second.tolist() == pytest.approx([1.12022, -0.56011, -0.56011], rel=1e-3)


def test_components_keep_their_weight_however_large_the_others_are() -> None:
    large = torch.tensor([0.0, 100.0, 0.0, 100.0])
    small = torch.tensor([0.0, 0.0, 0.1, 0.1])
    (found,) = gdpo([torch.stack([large, small], dim=-1)], [torch.tensor([1.0, 1.0])])
    assert found[1] == pytest.approx(found[2].item(), abs=1e-2)
    assert found.mean().item() == pytest.approx(0.0, abs=1e-6)


def make_member(cost: str, *, compute: float, latency: float) -> Episode:
    vector = policy_pb2.PreferenceVector(outcome=1.0, compute=compute, latency=latency)
    trajectory = make_trajectory(cost=cost, preferences=vector)
    return episode_from_proto(trajectory, Limits(vocabulary=64))


def test_the_element_with_more_weight_decides_between_costs() -> None:
    members = [
        make_member("0.01", compute=0.8, latency=0.2),
        make_member("0.03", compute=0.8, latency=0.2),
        make_member("0.05", compute=0.2, latency=0.8),
        make_member("0.07", compute=0.4, latency=0.4),
    ]
    found = adherence_metrics(members)
    assert found["adherence cost cost first"] == 0.02
    assert found["adherence cost speed first"] == 0.05
    assert found["adherence cost even"] == 0.07
    assert found["adherence latency even"] == 2.0
    assert "adherence preferred" not in found


def test_calls_count_where_tools_are_preferred() -> None:
    calling, other = (
        policy_pb2.PreferenceVector(tools={name: 0.5}) for name in ("calculator", "search")
    )
    members = [
        episode_from_proto(make_trajectory(preferences=vector), Limits(vocabulary=64))
        for vector in (calling, other)
    ]
    assert adherence_metrics(members)["adherence preferred"] == 0.5
