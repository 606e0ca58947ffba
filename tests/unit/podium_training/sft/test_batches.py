"""Padded batches hold every row once an epoch, and compute what rows compute alone."""

from collections import Counter
from itertools import islice
from random import Random

import torch
from hypothesis import given
from hypothesis import strategies as st

from podium_training.grpo.model.forward import Distribution, token_logprobs
from podium_training.grpo.model.trie import pack
from podium_training.sft.batches import batches, collated, shuffled_batches
from podium_training.sft.demonstrations import Row
from podium_training.sft.training import measure
from unit.podium_training.grpo.builders import make_model, make_row

IDS = st.lists(st.integers(3, 60), min_size=1, max_size=40).map(tuple)
ROWS = st.lists(st.builds(Row, IDS, IDS), min_size=1, max_size=12)


@given(ROWS, st.integers(16, 400))
def test_no_batch_is_larger_than_allowed_but_one_of_a_single_row(
    rows: list[Row], tokens_max: int
) -> None:
    found = list(batches(rows, tokens_max))
    assert [row for batch in found for row in batch] == rows
    for batch in found:
        assert len(batch) == 1 or collated(batch).tokens.numel() <= tokens_max


@given(ROWS, st.integers(16, 400), st.integers())
def test_an_epoch_has_every_row_once(rows: list[Row], tokens_max: int, seed: int) -> None:
    drawn: list[Row] = []
    for batch in islice(shuffled_batches(rows, tokens_max, Random(seed)), 2 * len(rows)):
        if len(drawn) >= len(rows):
            break
        drawn.extend(batch)
    assert Counter(drawn) == Counter(rows)


def test_padding_changes_nothing() -> None:
    rows = [Row((3, 4, 5), (6, 7)), Row((8,), (9, 10, 11)), Row(tuple(range(3, 30)), (31,))]
    expected = -torch.cat([logprobs(row) for row in rows]).mean().item()
    assert abs(measure(make_model(), rows, 1000).loss - expected) < 1e-5


def logprobs(row: Row) -> torch.Tensor:
    """As the trainer of GRPO computes them."""
    packed = pack([make_row(list(row.prompt), list(row.completion))])
    return token_logprobs(make_model(), packed, Distribution(torch.ones(len(row.completion)), None))
