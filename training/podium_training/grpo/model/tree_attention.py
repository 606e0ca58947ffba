"""Attention over a tree of rows, block by block, each with the tokens alone that it can see.

A mask over the whole tree would have every branch look at all others and forget what it saw:
the work of two branches grows with both. Here a block of queries meets its own ancestors, so
a branch costs the same however many others there are.

That is for processors. A GPU waits for each of the many small products, and computes the whole
tree under a mask in the time of a few of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Float32, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from podium_training.grpo.model.trie import PackedRows

NAME = "podium_tree"
NO_MASK = torch.ones(1, 1, 1, 1, dtype=torch.bool)
# About a branch: an action, and what the problem adds to the shared prompt.
BLOCK = 128


# As transformers' attention functions take and give them; several queries share a key.
Heads = Float[Tensor, "1 heads nodes size"]
KeyHeads = Float[Tensor, "1 key_heads nodes size"]
Attended = Float[Tensor, "1 queries heads size"]
# Of one block: the heads that share a key lie in a row of queries.
BlockQueries = Float[Tensor, "key_heads rows size"]
BlockKeys = Float[Tensor, "key_heads seen size"]


@dataclass(frozen=True)
class Block:
    start: int
    end: int
    seen: Int[Tensor, " seen"]
    """Places of the tokens that any of them sees."""
    bias: Float32[Tensor, "queries seen"]
    """0 where a query sees a token, -inf where it does not."""


def sight(packed: PackedRows) -> dict[str, Any]:
    """Returns the layers' arguments with which a token sees itself and its ancestors alone."""
    if packed.is_path:
        # Causal, which kernels compute without a mask.
        return {}
    if packed.ends.device.type == "cpu":
        # A mask that is given keeps another from being made.
        return {"tree": blocks(packed), "attention_mask": NO_MASK}
    return {"attention_mask": mask(packed)[None, None]}


def mask(packed: PackedRows) -> Bool[Tensor, "nodes nodes"]:
    """Returns whether each token sees each."""
    places = torch.arange(len(packed.ends), device=packed.ends.device)
    viewer, place = places[:, None], places[None, :]
    return (place <= viewer) & (viewer < packed.ends)


def blocks(packed: PackedRows) -> list[Block]:
    starts = range(0, len(packed.tokens), BLOCK)
    return [_block(packed, start, min(start + BLOCK, len(packed.tokens))) for start in starts]


def use_tree_attention(decoder: PreTrainedModel) -> None:
    """Makes the layers take `tree`; without it they attend as before."""
    if decoder.config._attn_implementation != NAME:
        decoder.set_attn_implementation(NAME)


def _block(packed: PackedRows, start: int, end: int) -> Block:
    places = torch.arange(end, device=packed.ends.device)
    viewer, place = places[start:, None], places[None, :]
    visible = (place <= viewer) & (viewer < packed.ends[None, :end])
    seen = visible.any(dim=0).nonzero()[:, 0]
    bias = torch.zeros(end - start, len(seen), device=seen.device)
    return Block(start, end, seen, bias.masked_fill(~visible[:, seen], float("-inf")))


def _attend(
    module: nn.Module,
    query: Heads,
    key: KeyHeads,
    value: KeyHeads,
    attention_mask: Tensor | None,
    *,
    scaling: float,
    tree: Sequence[Block] = (),
    **options: Any,
) -> tuple[Attended, None]:
    if not tree:
        found: tuple[Attended, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **options
        )
        return found
    # Of these three only values come straight from a product, in the precision of products.
    query, key = (scaling * query).to(value.dtype), key.to(value.dtype)
    attended: Tensor = _TreeAttention.apply(query, key, value, tree)  # type: ignore[no-untyped-call]
    return attended.transpose(1, 2), None


class _TreeAttention(torch.autograd.Function):
    """Keeps queries, keys and values alone; what the blocks pick of them is picked again."""

    @staticmethod
    def forward(
        ctx: Any, query: Heads, key: KeyHeads, value: KeyHeads, tree: Sequence[Block]
    ) -> Heads:
        attended = torch.empty_like(query, memory_format=torch.contiguous_format)
        for block, queries, keys, values in _picked(tree, query, key, value):
            weights = _weights(block, queries, keys)
            _put(attended, block, weights.to(values.dtype) @ values)
        ctx.save_for_backward(query, key, value, attended)
        ctx.tree = tree
        return attended

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Heads) -> tuple[Tensor | None, ...]:
        query, key, value, attended = ctx.saved_tensors
        to_query = torch.empty_like(query, memory_format=torch.contiguous_format)
        to_key, to_value = (
            torch.zeros(each.shape[1:], dtype=torch.float32, device=each.device)
            for each in (key, value)
        )
        # What softmax takes off: the same for all tokens that a query sees.
        common = (gradient.float() * attended.float()).sum(dim=-1, keepdim=True)
        for block, queries, keys, values in _picked(ctx.tree, query, key, value):
            weights = _weights(block, queries, keys)
            here = _fold(gradient, block, len(keys))
            to_scores = (here @ values.transpose(1, 2)).float()
            to_scores.sub_(_fold(common, block, len(keys))).mul_(weights)
            scores = to_scores.to(query.dtype)
            _put(to_query, block, scores @ keys)
            to_key.index_add_(1, block.seen, (scores.transpose(1, 2) @ queries).float())
            weights = weights.to(query.dtype)
            to_value.index_add_(1, block.seen, (weights.transpose(1, 2) @ here).float())
        return to_query, to_key[None].to(key.dtype), to_value[None].to(value.dtype), None


def _picked(
    tree: Sequence[Block], query: Heads, key: KeyHeads, value: KeyHeads
) -> Iterator[tuple[Block, BlockQueries, BlockKeys, BlockKeys]]:
    for block in tree:
        queries = _fold(query, block, key.shape[1])
        yield block, queries, key[0][:, block.seen], value[0][:, block.seen]


def _weights(
    block: Block, queries: BlockQueries, keys: BlockKeys
) -> Float32[Tensor, "key_heads rows seen"]:
    scores = (queries @ keys.transpose(1, 2)).float()
    scores.unflatten(1, (-1, block.end - block.start)).add_(block.bias)
    return scores.softmax(dim=-1)


def _fold(rows: Heads, block: Block, key_heads: int) -> BlockQueries:
    """The block's part of a tensor, the heads that share a key one below the other."""
    here = rows[0][:, block.start : block.end]
    return here.reshape(key_heads, -1, rows.shape[-1])


def _put(rows: Heads, block: Block, folded: BlockQueries) -> None:
    here = rows[0][:, block.start : block.end]
    here.copy_(folded.reshape(here.shape))


AttentionInterface.register(NAME, _attend)
AttentionMaskInterface.register(NAME, sdpa_mask)
