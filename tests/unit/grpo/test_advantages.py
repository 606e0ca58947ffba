"""Advantages against tables computed by hand."""

import pytest
import torch

from grpo.advantages import ESTIMATORS, Advantage, gdpo

REWARDS = torch.tensor([[1.0, 0.0, 0.0, 1.0], [0.5, 0.5, 0.5, 0.5]])
STD = (1 / 3) ** 0.5
OVERALL_STD = float(REWARDS.std())
TABLE = {
    Advantage.GROUP_MEAN: [0.5, -0.5, -0.5, 0.5],
    Advantage.GROUP_STD: [0.5 / (STD + 1e-4) * s for s in (1, -1, -1, 1)],
    Advantage.BATCH_STD: [0.5 / (OVERALL_STD + 1e-4) * s for s in (1, -1, -1, 1)],
    Advantage.RLOO: [2 / 3, -2 / 3, -2 / 3, 2 / 3],
    Advantage.PAPER: [0.5 / (STD + 1e-6) * s for s in (1, -1, -1, 1)],
}


@pytest.mark.parametrize("estimator", list(ESTIMATORS))
def test_an_estimator_gives_what_its_formula_says(estimator: Advantage) -> None:
    found = ESTIMATORS[estimator](REWARDS)
    assert found[0].tolist() == pytest.approx(TABLE[estimator], rel=1e-5)
    assert found[1].tolist() == [0.0] * 4


def test_the_papers_advantage_is_clipped() -> None:
    outlier = torch.tensor([[100.0, *[0.0] * 15]])
    assert ESTIMATORS[Advantage.PAPER](outlier).max() == 3.0


def test_components_keep_their_say_however_large_the_others_are() -> None:
    large = torch.tensor([[0.0, 100.0, 0.0, 100.0]])
    small = torch.tensor([[0.0, 0.0, 0.1, 0.1]])
    found = gdpo(torch.stack([large, small], dim=-1), torch.tensor([1.0, 1.0]))
    assert found[0, 1] == pytest.approx(found[0, 2].item(), abs=1e-2)
    assert found.mean().item() == pytest.approx(0.0, abs=1e-6)
