import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from podium_training.grpo.model.forward import Distribution, token_logprobs
from podium_training.grpo.model.samples import Row
from podium_training.grpo.model.tree_attention import BLOCK, blocks, mask
from podium_training.grpo.model.trie import pack, worth_sharing
from unit.podium_training.grpo.builders import make_group, make_model, make_row

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
