from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Float32, Int
from peft import PeftModel
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from transformers import PreTrainedModel

from podium_training.grpo.model.grammar import LegalBits, unpacked
from podium_training.grpo.model.tree_attention import sight, use_tree_attention
from podium_training.grpo.model.trie import PackedRows

# Positions whose logits exist at once: 128 of 49,152 in float32 are 25 MB.
CHUNK = 128


@dataclass(frozen=True)
class Distribution:
    """The sampling distributions of packed rows; one element per trained token."""

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
    """Computes the log-probabilities of trained tokens, with a gradient where gradients are on.

    Only positions that predict a trained token reach the output layer, once, however many rows
    continue from there.
    """
    places, which = packed.predicted_from.unique(return_inverse=True)
    hidden = _hidden(model, packed)[places]
    order = which.argsort(stable=True)
    # Rows that share a place were sampled there alike: the first speaks for all.
    numbers = torch.arange(len(places), device=places.device)
    first = order[torch.searchsorted(which[order], numbers)]
    legal = None if sampled.legal is None else sampled.legal[first]
    here = Distribution(sampled.temperature[first], legal)
    head = model.get_output_embeddings()
    asked = _Asked(which, packed.targets, here, chunk)
    found: Tensor = _Head.apply(hidden, head.weight, head.bias, asked)  # type: ignore[no-untyped-call]
    return found


@dataclass(frozen=True)
class _Asked:
    place: Int[Tensor, " tokens"]
    target: Int[Tensor, " tokens"]
    sampled: Distribution
    """One element per place."""
    chunk: int


class _Head(torch.autograd.Function):
    """The output layer and what it says of some tokens, a chunk of places at a time.

    Logits are not kept for the way back but computed again (arXiv 1604.06174), which costs less
    than their memory; nor are there gradients of the layer for each chunk, to be added up.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Float[Tensor, "places width"],
        weight: Float[Tensor, "vocabulary width"],
        bias: Float[Tensor, " vocabulary"] | None,
        asked: _Asked,
    ) -> Float32[Tensor, " tokens"]:
        kind = hidden.device.type
        autocast = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
        ctx.precision = torch.get_autocast_dtype(kind) if autocast else weight.dtype
        starts = range(0, len(hidden), asked.chunk)
        ctx.chunks = [slice(start, start + asked.chunk) for start in starts]
        ctx.asked = asked
        place, target = asked.place, asked.target
        found = hidden.new_empty(len(place), dtype=torch.float32)
        norms = hidden.new_empty(len(hidden), 1, dtype=torch.float32)
        layer = weight.to(ctx.precision)
        for rows in ctx.chunks:
            logits = _logits(hidden[rows], layer, bias, asked.sampled, rows)
            norms[rows] = logits.exp().sum(dim=-1, keepdim=True).log_()
            here = _within(place, rows)
            found[here] = logits[place[here] - rows.start, target[here]]
        ctx.save_for_backward(hidden, weight, bias, norms)
        return found.sub_(norms[place, 0])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Float32[Tensor, " tokens"]) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, norms = ctx.saved_tensors
        place, target, sampled = ctx.asked.place, ctx.asked.target, ctx.asked.sampled
        layer = weight.to(ctx.precision)
        learns = ctx.needs_input_grad[1]
        to_hidden, to_layer = torch.empty_like(hidden), torch.zeros_like(layer) if learns else None
        to_bias = torch.zeros_like(bias) if ctx.needs_input_grad[2] else None
        for rows in ctx.chunks:
            shares = _logits(hidden[rows], layer, bias, sampled, rows).sub_(norms[rows]).exp_()
            here = _within(place, rows)
            at, here_to = place[here] - rows.start, gradient[here]
            whole = torch.zeros_like(norms[rows, 0]).index_add_(0, at, here_to)
            to_logits = shares.mul_(-whole[:, None])
            to_logits.index_put_((at, target[here]), here_to, accumulate=True)
            to_logits.div_(sampled.temperature[rows, None])
            if sampled.legal is not None:
                legal = unpacked(sampled.legal[rows], len(layer))
                to_logits.masked_fill_(~legal, 0.0)
            if to_bias is not None:
                to_bias.add_(to_logits.sum(dim=0))
            to_product = to_logits.to(ctx.precision)
            to_hidden[rows] = (to_product @ layer).to(hidden.dtype)
            if to_layer is not None:
                to_layer.addmm_(to_product.T, hidden[rows].to(ctx.precision))
        to_weight = None if to_layer is None else to_layer.to(weight.dtype)
        return to_hidden, to_weight, to_bias, None


def _logits(
    hidden: Float[Tensor, "places width"],
    layer: Float[Tensor, "vocabulary width"],
    bias: Float[Tensor, " vocabulary"] | None,
    sampled: Distribution,
    rows: slice,
) -> Float32[Tensor, "places vocabulary"]:
    """Returns the logits that were sampled from, less the maximum of each position, so that
    exponents stay finite.
    """
    logits = (hidden.to(layer.dtype) @ layer.T).float()
    if bias is not None:
        logits.add_(bias)
    logits.div_(sampled.temperature[rows, None])
    if sampled.legal is not None:
        logits.masked_fill_(~unpacked(sampled.legal[rows], logits.shape[-1]), float("-inf"))
    return logits.sub_(logits.amax(dim=-1, keepdim=True))


def _within(place: Int[Tensor, " tokens"], rows: slice) -> Int[Tensor, " some"]:
    found: Tensor = ((place >= rows.start) & (place < rows.stop)).nonzero()[:, 0]
    return found


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
    decoder = model.get_decoder()
    use_tree_attention(decoder)
    output = decoder(
        input_ids=packed.tokens[None],
        position_ids=packed.depths[None],
        use_cache=False,
        **sight(packed),
    )
    hidden: Tensor = output.last_hidden_state[0]
    return hidden
