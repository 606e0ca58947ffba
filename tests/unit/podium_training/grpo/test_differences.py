import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from podium_training.grpo.checkpoints import Checkpoint
from podium_training.grpo.differences import differences


def make_checkpoint(weight: Tensor | None = None, rate: float = 0.1) -> Checkpoint:
    moments: dict[str, Any] = {"step": torch.tensor(1.0), "exp_avg": torch.ones(2)}
    optimizer = {"state": {0: moments}, "param_groups": [{"lr": rate, "betas": (0.9, 0.99)}]}
    weight = torch.tensor([0.0, math.nan]) if weight is None else weight
    return Checkpoint(1, {"layer.weight": weight}, optimizer, {})


def test_the_same_bits_are_no_difference_even_where_they_are_no_number() -> None:
    assert differences(make_checkpoint(), make_checkpoint()) == []


@pytest.mark.parametrize(
    ("weight", "told"),
    [
        (torch.tensor([-0.0, math.nan]), "layer.weight differs"),
        (torch.tensor([0.5, 0.0]), "layer.weight differs"),
        (torch.zeros(3), "recorded torch.float32 of shape [3]"),
        (torch.zeros(2).bfloat16(), "recorded torch.bfloat16 of shape [2]"),
    ],
)
def test_a_changed_bit_of_a_weight_is_reported(weight: Tensor, told: str) -> None:
    (found,) = differences(make_checkpoint(), make_checkpoint(weight))
    assert told in found


def test_differences_of_the_optimizer_name_their_place() -> None:
    changed = make_checkpoint(rate=0.2)
    changed.optimizer["state"][0]["exp_avg"] = torch.tensor([1.0, 1.5])
    assert differences(make_checkpoint(), changed) == [
        "optimizer['state'][0]['exp_avg'] differs by up to 0.5",
        "optimizer['param_groups'][0]['lr'] is 0.1, recorded 0.2",
    ]


def test_a_tensor_that_only_one_has_is_reported() -> None:
    more = replace(make_checkpoint(), weights={**make_checkpoint().weights, "new": torch.ones(1)})
    (found,) = differences(make_checkpoint(), more)
    assert found == "new is None, recorded torch.float32 of shape [1]"
