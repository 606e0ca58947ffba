"""Log-probabilities of the trained tokens of packed rows, under the distribution sampled from."""

from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from grpo.grammar import unpacked
from grpo.trie import PackedRows

# Positions whose logits exist at once: 256 of 49,152 in float32 are 50 MB.
CHUNK = 256


@dataclass(frozen=True)
class Distribution:
    """How the trained tokens of packed rows were sampled; one element per trained token."""

    temperature: Tensor
    """(T,) above 0."""
    legal: Tensor | None
    """(T, ceil(vocabulary / 32)) bits; None: no grammar."""


def token_logprobs(
    model: PreTrainedModel, packed: PackedRows, sampled: Distribution, chunk: int = CHUNK
) -> Tensor:
    """(T,) float32, with a gradient where gradients are on.

    Only positions that predict a trained token reach the output layer, a chunk at a time.
    """
    hidden = _hidden(model, packed)[packed.predicted_from]
    parts = []
    for start in range(0, len(packed.targets), chunk):
        rows = slice(start, start + chunk)
        logits = model.get_output_embeddings()(hidden[rows]).float()
        logits = logits / sampled.temperature[rows, None]
        if sampled.legal is not None:
            allowed = unpacked(sampled.legal[rows], logits.shape[-1])
            logits = logits.masked_fill(~allowed, float("-inf"))
        chosen = logits.gather(1, packed.targets[rows, None]).squeeze(1)
        parts.append(chosen - logits.logsumexp(dim=-1))
    return torch.cat(parts)


def _hidden(model: PreTrainedModel, packed: PackedRows) -> Tensor:
    """(N, width) the last layer's output at every token of the tree."""
    output = model.get_decoder()(
        input_ids=packed.tokens[None],
        position_ids=packed.depths[None],
        attention_mask=packed.attention()[None, None],
        use_cache=False,
    )
    hidden: Tensor = output.last_hidden_state[0]
    return hidden
