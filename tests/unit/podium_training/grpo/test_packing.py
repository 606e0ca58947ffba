"""Packed rows: log-probabilities, gradients, precision, recomputation."""

import math
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, Qwen2Config, Qwen3Config
from transformers.models.llama.modeling_llama import LlamaMLP
from transformers.models.mistral.modeling_mistral import MistralMLP
from transformers.models.qwen2.modeling_qwen2 import Qwen2MLP
from transformers.models.qwen3.modeling_qwen3 import Qwen3MLP

from podium_training.grpo.config import RecomputedName
from podium_training.grpo.model.forward import Distribution, Scorer, token_logprobs
from podium_training.grpo.model.grammar import BITS, unpacked
from podium_training.grpo.model.recomputing import GATED, recompute
from podium_training.grpo.model.samples import Row
from podium_training.grpo.model.tree_attention import BLOCK, blocks, mask
from podium_training.grpo.model.trie import PackedRows, pack, worth_sharing
from unit.podium_training.grpo.builders import VOCABULARY, make_group, make_model, make_row
from unit.podium_training.grpo.test_learner import make_group as make_chosen
from unit.podium_training.grpo.test_learner import make_learner

TOKENS = st.integers(3, 8)
ROWS = st.lists(
    st.tuples(st.lists(TOKENS, min_size=1, max_size=5), st.lists(TOKENS, min_size=1, max_size=5)),
    min_size=1,
    max_size=6,
)


def logprobs(model: torch.nn.Module, rows: list[Row]) -> torch.Tensor:
    packed = pack(rows)
    temperature = torch.tensor([rows[row].temperature for row in packed.row])
    return token_logprobs(model, packed, Distribution(temperature, None), chunk=5)


@settings(max_examples=30)
@given(ROWS)
def test_whatever_is_shared_every_row_gets_its_own_logprobs(
    drawn: list[tuple[list[int], list[int]]],
) -> None:
    model, rows = make_model(), [make_row(*each) for each in drawn]
    with torch.no_grad():
        alone = torch.cat([logprobs(model, [row]) for row in rows])
        together = logprobs(model, rows)
    assert torch.allclose(alone, together, atol=2e-5)


def test_gradients_are_those_of_separate_rows() -> None:
    rows = [*make_group(1), *make_group(2)]
    gradients = []
    for batches in ([[row] for row in rows], [rows]):
        model = make_model()
        for batch in batches:
            logprobs(model, batch).sum().backward()
        gradients.append(
            torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        )
    difference = (gradients[0] - gradients[1]).norm() / gradients[0].norm()
    assert difference < 2e-5


def test_a_shared_prompt_is_computed_once() -> None:
    rows = make_group(3, members=8, prompt=40)
    packed = pack(rows)
    completions = sum(len(row.completion_ids) - 1 for row in rows)
    assert len(packed.tokens) <= 40 + completions


def test_rows_that_go_on_from_one_place_reach_the_output_layer_once() -> None:
    rows = [make_row([3, 4, 5], [6, last]) for last in (7, 8, 9)]
    kept: list[torch.Size] = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor.shape)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        logprobs(make_model(), rows)
    # Last it keeps the norm of what it said at each place.
    assert kept[-1] == (2, 1)


def test_identical_completions_are_one_path_and_count_twice() -> None:
    row = make_row([3, 4, 5], [6, 7])
    packed = pack([row, row])
    assert (len(packed.tokens), len(packed.targets)) == (4, 4)
    assert packed.row.tolist() == [0, 0, 1, 1]


def test_rows_under_different_grammars_share_nothing() -> None:
    first, second = make_row([3, 4], [6, 7]), make_row([3, 4], [6, 7], constraint="other")
    assert len(pack([first, second]).tokens) == 6


def test_rows_are_computed_together_where_they_share_half_a_prompt() -> None:
    row = make_row([3, 4, 5, 6], [7])
    assert worth_sharing(row, make_row([3, 4, 8, 9], [7]))
    assert not worth_sharing(row, make_row([3, 8, 8, 9], [7]))
    assert not worth_sharing(row, make_row([3, 4, 5, 6], [7], temperature=0.5))


def test_a_token_sees_its_ancestors_alone() -> None:
    packed = pack([make_row([3], [4, 5]), make_row([3], [6, 7])])
    [block] = blocks(packed)
    tokens = packed.tokens.tolist()
    seen = block.seen[block.bias[tokens.index(6)] == 0]
    assert packed.tokens[seen].tolist() == [3, 6]


def test_a_mask_shows_a_token_what_its_block_shows() -> None:
    packed = pack([make_row([3] * 90, [n, n + 1] * 40) for n in (4, 6)])
    shown = torch.zeros(len(packed.tokens), len(packed.tokens), dtype=torch.bool)
    for block in blocks(packed):
        shown[block.start : block.end, block.seen] = block.bias == 0
    assert len(blocks(packed)) > 1
    assert mask(packed).equal(shown)


def test_a_tree_of_many_blocks_computes_what_its_rows_do_alone() -> None:
    draw = torch.Generator().manual_seed(0)
    prompt, *ends = (
        torch.randint(3, 9, (size,), generator=draw).tolist() for size in (300, 150, 10, 200, 150)
    )
    rows = [make_row(prompt + end[:100], end[100:] or end) for end in ends]
    model = make_model()
    packed = pack(rows)
    assert len(blocks(packed)) > 4
    # A branch looks at its own ancestors, not at all that came before it.
    assert len(blocks(packed)[-1].seen) < len(packed.tokens) - 2 * BLOCK
    together = logprobs(model, rows)
    alone = torch.cat([logprobs(model, [row]) for row in rows])
    assert torch.allclose(together, alone, atol=1e-5)
    weights = tuple(model.parameters())
    for ours, theirs in zip(
        torch.autograd.grad(together.sum(), weights),
        torch.autograd.grad(alone.sum(), weights),
        strict=True,
    ):
        assert torch.allclose(ours, theirs, atol=1e-4)


def test_temperature_is_part_of_the_distribution() -> None:
    model = make_model()
    with torch.no_grad():
        warm, cold = (
            logprobs(model, [make_row([3, 4], [6], temperature=each)]) for each in (1.0, 0.5)
        )
    assert warm.item() != pytest.approx(cold.item())


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


ROUGH = torch.bfloat16
# Of a model of width 32: bfloat16 keeps three digits of each product.
NATS = 0.2


def scores(precision: torch.dtype) -> torch.Tensor:
    """Scores of a tree with branches, under a grammar that allows everything."""
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
