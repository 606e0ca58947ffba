import pytest
import torch

from podium_training.grpo.objective.advantages import GROUP_ESTIMATORS, Advantage, batch_std, gdpo

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
