"""Rows of about one length side by side: a GPU computes thousands of tokens at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from random import Random

import torch
from jaxtyping import Float32, Int
from torch import Tensor

from podium_training.sft.demonstrations import Row

# Tokens by which lengths are taken to differ, so that an epoch has other neighbours.
JITTER = 48
MULTIPLE = 16


@dataclass(frozen=True)
class Batch:
    """Rows, padded at their end: causal attention sees no padding before it."""

    tokens: Int[Tensor, "rows longest"]
    predicted_from: Int[Tensor, " trained"]
    """Places, in the rows one behind the other, whose output predicts a trained token."""
    targets: Int[Tensor, " trained"]
    weights: Float32[Tensor, " trained"]

    def to(self, device: torch.device) -> "Batch":
        return Batch(*(getattr(self, each.name).to(device) for each in fields(self)))


def shuffled_batches(
    rows: Sequence[Row], tokens_max: int, random: Random
) -> Iterator[Sequence[Row]]:
    """One epoch after the other, without end."""
    while True:
        order = sorted(rows, key=lambda row: len(row) + random.randrange(JITTER))
        found = list(batches(order, tokens_max))
        random.shuffle(found)
        yield from found


def batches(rows: Sequence[Row], tokens_max: int) -> Iterator[Sequence[Row]]:
    """Yields batches in order; a row longer than the bound has a batch of its own."""
    batch: list[Row] = []
    longest = 0
    for row in rows:
        longest = max(longest, _padded(len(row)))
        if batch and longest * (len(batch) + 1) > tokens_max:
            yield batch
            batch, longest = [], _padded(len(row))
        batch.append(row)
    if batch:
        yield batch


def collated(rows: Sequence[Row]) -> Batch:
    longest = max(_padded(len(row)) for row in rows)
    tokens = torch.zeros(len(rows), longest, dtype=torch.int64)
    places, targets, weights = [], [], []
    for number, row in enumerate(rows):
        tokens[number, : len(row)] = torch.tensor([*row.prompt, *row.completion])
        first = number * longest + len(row.prompt) - 1
        places.append(torch.arange(first, first + len(row.completion)))
        targets.append(torch.tensor(row.completion))
        weights.append(torch.full((len(row.completion),), row.weight))
    return Batch(tokens, torch.cat(places), torch.cat(targets), torch.cat(weights))


def _padded(length: int) -> int:
    return -(-length // MULTIPLE) * MULTIPLE
