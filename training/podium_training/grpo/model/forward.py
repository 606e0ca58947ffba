"""Log-probabilities of the trained tokens of packed rows, under the distribution sampled from."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float32
from peft import PeftModel
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from podium_training.grpo.model.grammar import LegalBits, unpacked
from podium_training.grpo.model.tree_attention import blocks, use_tree_attention
from podium_training.grpo.model.trie import PackedRows

# Positions whose logits exist at once: 128 of 49,152 in float32 are 25 MB.
CHUNK = 128
NO_MASK = torch.ones(1, 1, 1, 1, dtype=torch.bool)


@dataclass(frozen=True)
class Distribution:
    """How the trained tokens of packed rows were sampled; one element per trained token."""

    temperature: Float[Tensor, " tokens"]
    """Above 0."""
    legal: LegalBits | None
    """None: no grammar."""

    def to(self, device: torch.device) -> "Distribution":
        legal = None if self.legal is None else self.legal.to(device)
        return Distribution(self.temperature.to(device), legal)


def token_logprobs(
    model: PreTrainedModel | PeftModel,
    packed: PackedRows,
    sampled: Distribution,
    chunk: int = CHUNK,
) -> Float32[Tensor, " tokens"]:
    """With a gradient where gradients are on.

    Only positions that predict a trained token reach the output layer, a chunk at a time and
    once, however many rows go on from there. Logits are not kept for the way back: the
    output layer is computed again (arXiv 1604.06174), which costs less than their memory.
    """
    places, which = packed.predicted_from.unique(return_inverse=True)
    hidden = _hidden(model, packed)[places]
    order = which.argsort(stable=True)
    # Rows that share a place were sampled there alike: the first speaks for all.
    numbers = torch.arange(len(places), device=places.device)
    first = order[torch.searchsorted(which[order], numbers)]
    head = model.get_output_embeddings()
    parts = []
    for start in range(0, len(places), chunk):
        rows = slice(start, start + chunk)
        tokens = order[(which[order] >= start) & (which[order] < start + chunk)]
        legal = None if sampled.legal is None else sampled.legal[first[rows]]
        here = Distribution(sampled.temperature[first[rows]], legal)
        logprobs = checkpoint(_logprobs, head, hidden[rows], here, use_reentrant=False)
        parts.append(logprobs[which[tokens] - start, packed.targets[tokens]])
    return torch.cat(parts)[order.argsort()]


def _logprobs(
    head: nn.Module, hidden: Float[Tensor, "tokens width"], sampled: Distribution
) -> Float32[Tensor, "tokens vocabulary"]:
    logits: Tensor = head(hidden).float() / sampled.temperature[:, None]
    if sampled.legal is not None:
        logits = logits.masked_fill(~unpacked(sampled.legal, logits.shape[-1]), float("-inf"))
    return logits.log_softmax(dim=-1)


class Scorer(nn.Module):
    """`token_logprobs` as a module: what gathers sharded weights hooks into its calls."""

    def __init__(
        self, model: PreTrainedModel | PeftModel, precision: torch.dtype = torch.float32
    ) -> None:
        """`precision` is that of the products; weights and log-probabilities stay float32."""
        super().__init__()
        self.model = model
        self._precision = precision

    def forward(self, packed: PackedRows, sampled: Distribution) -> Float32[Tensor, " tokens"]:
        if self._precision is torch.float32:
            return token_logprobs(self.model, packed, sampled)
        with torch.autocast(packed.tokens.device.type, self._precision):
            return token_logprobs(self.model, packed, sampled)


def _hidden(model: PreTrainedModel | PeftModel, packed: PackedRows) -> Float[Tensor, "nodes width"]:
    """The last layer's output at every token of the tree."""
    decoder = model.get_decoder()
    use_tree_attention(decoder)
    # Without branches attention is causal, which kernels compute without a mask. With them the
    # blocks say who sees whom; a mask that is given keeps another from being made.
    tree = {} if packed.is_path else {"tree": blocks(packed), "attention_mask": NO_MASK}
    output = decoder(
        input_ids=packed.tokens[None], position_ids=packed.depths[None], use_cache=False, **tree
    )
    hidden: Tensor = output.last_hidden_state[0]
    return hidden
