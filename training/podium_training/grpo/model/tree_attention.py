"""Attention over a tree of rows, block by block, each with the tokens alone that it can see.

A mask over the whole tree would have every branch look at all others and forget what it saw:
the work of two branches grows with both. Here a block of queries meets its own ancestors, so
a branch costs the same however many others there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from podium_training.grpo.model.trie import PackedRows

NAME = "podium_tree"
# About a branch: an action, and what the problem adds to the shared prompt.
BLOCK = 128
# What the blocks of so many tokens pick is kept for the way back: 1.5 GB at most in SmolLM2-135M.
KEPT_TOKENS = 1024


# As transformers' attention functions take and give them; several queries share a key.
Heads = Float[Tensor, "1 heads nodes size"]
KeyHeads = Float[Tensor, "1 key_heads nodes size"]
Attended = Float[Tensor, "1 queries heads size"]


@dataclass(frozen=True)
class Block:
    """Some consecutive queries."""

    start: int
    end: int
    seen: Int[Tensor, " seen"]
    """Places of the tokens that any of them sees."""
    mask: Bool[Tensor, "1 1 queries seen"]
    """Which query sees which."""


def blocks(packed: PackedRows) -> list[Block]:
    """The tree in blocks, in its order."""
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
    return Block(start, end, seen, visible[:, seen][None, None])


def _attend(
    module: nn.Module,
    query: Heads,
    key: KeyHeads,
    value: KeyHeads,
    attention_mask: Bool[Tensor, "..."] | None,
    *,
    tree: Sequence[Block] = (),
    **options: Any,
) -> tuple[Attended, None]:
    if not tree:
        found: tuple[Attended, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, **options
        )
        return found
    attend = _attend_block if tree[-1].end <= KEPT_TOKENS else _attend_block_again
    parts = [attend(module, block, query, key, value, **options) for block in tree]
    return torch.cat(parts, dim=1), None


def _attend_block_again(
    module: nn.Module, block: Block, query: Heads, key: KeyHeads, value: KeyHeads, **options: Any
) -> Attended:
    """Picks again on the way back: what all blocks of a large tree pick would be most of memory."""
    again = partial(_attend_block, module, block, **options)
    found: Attended = checkpoint(
        again, query, key, value, use_reentrant=False, preserve_rng_state=False
    )
    return found


def _attend_block(
    module: nn.Module, block: Block, query: Heads, key: KeyHeads, value: KeyHeads, **options: Any
) -> Attended:
    found: Attended = sdpa_attention_forward(
        module,
        query[:, :, block.start : block.end],
        key[:, :, block.seen],
        value[:, :, block.seen],
        block.mask,
        **options,
    )[0]
    return found


AttentionInterface.register(NAME, _attend)
AttentionMaskInterface.register(NAME, sdpa_mask)
