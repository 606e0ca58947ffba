import pytest
import torch
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from podium_training.grpo.model.forward import Distribution, token_logprobs
from podium_training.grpo.model.grammar import BITS, unpacked
from podium_training.grpo.model.trie import PackedRows, pack
from unit.podium_training.grpo.builders import VOCABULARY, make_group, make_model

Gradients = dict[str, Tensor]


def make_policy(*, tied: bool, bias: bool) -> LlamaForCausalLM:
    model = make_model()
    if not tied:
        torch.manual_seed(5)
        model.lm_head = nn.Linear(model.config.hidden_size, VOCABULARY, bias=bias)
    return model


def make_batch() -> tuple[PackedRows, Distribution]:
    packed = pack(make_group(seed=3))
    draw = torch.Generator().manual_seed(7)
    words = torch.randint(-(2**31), 2**31 - 1, (VOCABULARY, VOCABULARY // BITS), generator=draw)
    # The same for all that continue from a place, and what they went on with is legal.
    legal = words.int()[packed.predicted_from]
    for number, place in enumerate(packed.predicted_from):
        for target in packed.targets[packed.predicted_from == place]:
            word = int(target) // BITS
            bit = torch.tensor(1 << (int(target) % BITS)).int()
            legal[number, word] |= bit
    temperature = 0.5 + packed.predicted_from / len(packed.tokens)
    return packed, Distribution(temperature, legal)


def by_autograd(model: LlamaForCausalLM, packed: PackedRows, sampled: Distribution) -> Tensor:
    assert sampled.legal is not None
    whole = Distribution(sampled.temperature, None)
    hidden: list[Tensor] = []
    handle = model.model.register_forward_hook(lambda *args: hidden.append(args[2][0]))
    token_logprobs(model, packed, whole)
    handle.remove()
    logits = model.lm_head(hidden[0][0][packed.predicted_from]) / sampled.temperature[:, None]
    logits = logits.masked_fill(~unpacked(sampled.legal, VOCABULARY), float("-inf"))
    found: Tensor = logits.log_softmax(dim=-1).gather(1, packed.targets[:, None])[:, 0]
    return found


def gradients_of(model: LlamaForCausalLM, logprobs: Tensor) -> Gradients:
    shares = torch.linspace(-1, 2, len(logprobs))
    (shares * logprobs).sum().backward()
    return {name: each.grad for name, each in model.named_parameters() if each.grad is not None}


@pytest.mark.parametrize(
    ("tied", "bias"), [(True, False), (False, False), (False, True)], ids=["tied", "own", "bias"]
)
@pytest.mark.parametrize("chunk", [2, 1000])
def test_values_and_gradients_are_autograds(tied: bool, bias: bool, chunk: int) -> None:
    packed, sampled = make_batch()
    ours, theirs = (make_policy(tied=tied, bias=bias) for _ in range(2))
    expected = by_autograd(theirs, packed, sampled)
    found = token_logprobs(ours, packed, sampled, chunk)
    assert torch.allclose(found, expected, atol=1e-5)
    reference = gradients_of(theirs, expected)
    gradients = gradients_of(ours, found)
    assert gradients.keys() == reference.keys()
    for name, each in gradients.items():
        difference = (each - reference[name]).norm() / reference[name].norm()
        assert difference < 2e-5, name


def test_a_layer_that_does_not_learn_gets_no_gradient() -> None:
    packed, sampled = make_batch()
    model = make_policy(tied=False, bias=True)
    model.lm_head.requires_grad_(False)
    names = gradients_of(model, token_logprobs(model, packed, sampled)).keys()
    assert "model.embed_tokens.weight" in names
    assert not any(name.startswith("lm_head") for name in names)
