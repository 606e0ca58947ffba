from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jaxtyping import Bool
from torch import Tensor

from podium_training.grpo.model.grammar import LegalBits
from podium_training.grpo.model.samples import Row
from podium_training.grpo.model.trie import worth_sharing


@dataclass(frozen=True)
class Sample:
    row: Row
    advantage: float
    legal: LegalBits | None
    """None: no grammar."""
    chosen: Bool[Tensor, " tokens"]
    """True where the grammar left a choice."""
    episode: int
    """Its number in the batch; an episode has a row for each of its calls."""
    weight: float = 0.0


def size_of(sample: Sample) -> int:
    """Tokens, before any are shared."""
    return len(sample.row.prompt_ids) + len(sample.row.completion_ids)


def micro_batches(samples: Sequence[Sample], tokens_max: int) -> Iterator[list[Sample]]:
    """Rows in order: those of a group, which share their prompts, stay together, others part."""
    batch: list[Sample] = []
    tokens = 0
    for sample in samples:
        size = size_of(sample)
        full = tokens + size > tokens_max
        if batch and (full or not worth_sharing(batch[-1].row, sample.row)):
            yield batch
            batch, tokens = [], 0
        batch.append(sample)
        tokens += size
    if batch:
        yield batch
