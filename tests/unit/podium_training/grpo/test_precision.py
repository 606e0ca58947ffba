import math

import torch

from podium_training.grpo.model.forward import Distribution, Scorer
from podium_training.grpo.model.grammar import BITS
from podium_training.grpo.model.trie import pack
from unit.podium_training.grpo.builders import VOCABULARY, make_group, make_model
from unit.podium_training.grpo.test_learner import make_group as make_chosen
from unit.podium_training.grpo.test_learner import make_learner

ROUGH = torch.bfloat16
# Of a model of width 32: bfloat16 keeps three digits of each product.
NATS = 0.2


def scores(precision: torch.dtype) -> torch.Tensor:
    """Of a tree with branches, under a grammar that allows everything."""
    packed = pack(make_group(seed=3))
    legal = torch.full((len(packed.targets), VOCABULARY // BITS), -1, dtype=torch.int32)
    sampled = Distribution(torch.ones(len(packed.targets)), legal)
    found: torch.Tensor = Scorer(make_model(), precision)(packed, sampled)
    return found


def test_log_probabilities_are_near_and_stay_float32() -> None:
    exact, rough = scores(torch.float32), scores(ROUGH)
    assert rough.dtype == torch.float32
    assert not torch.equal(rough, exact)
    assert torch.allclose(rough, exact, rtol=0, atol=NATS)


def test_a_step_in_bfloat16_moves_float32_weights_about_as_far() -> None:
    found = []
    for precision in (torch.float32, ROUGH):
        learner = make_learner(rate=0.5, precision=precision, gradient_norm_max=math.inf)
        result = learner.step([make_chosen(make_learner())])
        assert result.applied
        assert all(math.isfinite(value) for value in result.metrics.values())
        assert {value.dtype for value in learner.model.parameters()} == {torch.float32}
        found.append(result.metrics)
    exact, rough = found
    assert 0 < rough["drift_mean"] < NATS
    assert exact["drift_mean"] < rough["drift_mean"]
    assert rough["gradient_norm"] != exact["gradient_norm"]
    assert math.isclose(rough["gradient_norm"], exact["gradient_norm"], rel_tol=0.2)
