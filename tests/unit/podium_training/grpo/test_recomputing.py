import math
from typing import get_args

import pytest
import torch
from torch import Tensor, nn
from transformers import LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config
from transformers.models.llama.modeling_llama import LlamaMLP
from transformers.models.mistral.modeling_mistral import MistralMLP
from transformers.models.qwen2.modeling_qwen2 import Qwen2MLP
from transformers.models.qwen3.modeling_qwen3 import Qwen3MLP

from podium_training.grpo.config import RecomputedName
from podium_training.grpo.model.forward import Distribution, token_logprobs
from podium_training.grpo.model.recomputing import GATED, recompute
from podium_training.grpo.model.trie import pack
from unit.podium_training.grpo.builders import make_group, make_model

KINDS: dict[type[nn.Module], type[LlamaConfig]] = {
    LlamaMLP: LlamaConfig,
    MistralMLP: MistralConfig,
    Qwen2MLP: Qwen2Config,
    Qwen3MLP: Qwen3Config,
}


def step(what: RecomputedName | None) -> tuple[list[Tensor], int]:
    """Gradients, and the bytes that the way back keeps of the way forward."""
    model = make_model()
    if what is not None:
        recompute(model, what)
    weights = {each.untyped_storage().data_ptr() for each in model.parameters()}
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    packed = pack(make_group(seed=3))
    sampled = Distribution(torch.ones(len(packed.targets)), None)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        logprobs = token_logprobs(model, packed, sampled)
    logprobs.sum().backward()
    return [each.grad for each in model.parameters() if each.grad is not None], sum(kept.values())


def test_gradients_have_the_same_bits_and_less_is_kept() -> None:
    least = math.inf
    expected: list[Tensor] = []
    for what in (None, *get_args(RecomputedName)):
        gradients, kept = step(what)
        expected = expected or gradients
        assert all(map(torch.equal, gradients, expected))
        assert len(gradients) == len(expected)
        assert kept < least
        least = kept


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_gates_are_those_that_transformers_computes(kind: type[nn.Module]) -> None:
    assert {each.__name__ for each in KINDS} == GATED
    model = make_model()
    mlp = kind(KINDS[kind](hidden_size=32, intermediate_size=64))
    hidden = torch.randn(1, 5, 32)
    expected = mlp(hidden)
    model.model.layers[0].mlp = mlp
    recompute(model, "gates")
    assert "forward" in vars(mlp)
    assert torch.equal(mlp(hidden), expected)
