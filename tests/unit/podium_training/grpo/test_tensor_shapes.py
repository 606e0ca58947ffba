"""The shapes in annotations are checked when tests run, so they cannot be wrong unseen."""

import pytest
import torch
from jaxtyping import TypeCheckError

from podium_training.grpo.objective.advantages import rloo


def test_a_tensor_of_another_shape_is_rejected() -> None:
    assert rloo(torch.tensor([1.0, 0.0])).tolist() == [1.0, -1.0]
    with pytest.raises(TypeCheckError, match="members"):
        rloo(torch.ones(2, 2))
