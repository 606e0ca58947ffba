"""Runs in vLLM's environment: for each batch, how far its outputs are from the formula."""

import runpy
import sys
from collections.abc import Sequence

import torch
from vllm.lora.layers import LoRAMapping
from vllm.lora.punica_wrapper import punica_cpu

NONE, FIRST, SECOND, LAST = 0, 11, 12, 14
SLOTS = [FIRST, SECOND, 13, LAST]
BATCHES = [
    [FIRST] * 5,
    [FIRST, FIRST, SECOND, LAST, LAST],
    [SECOND, FIRST, SECOND],
    # The model alone, beside an adapter in the last slot.
    [NONE, NONE, LAST, NONE, FIRST],
    [NONE, NONE],
]
RANK, INPUTS, SLICES, SCALE = 3, 8, (5, 7), 2.0
GENERATOR = torch.Generator().manual_seed(1)


def difference(tokens: Sequence[int]) -> float:
    down = tuple(drawn(len(SLOTS), 1, RANK, INPUTS) for _ in SLICES)
    up = tuple(drawn(len(SLOTS), 1, size, RANK) for size in SLICES)
    x, y = drawn(len(tokens), INPUTS), drawn(len(tokens), sum(SLICES))
    wanted = y.clone()
    for number, token in enumerate(tokens):
        if token in SLOTS:
            slot = SLOTS.index(token)
            parts = [b[slot, 0] @ (a[slot, 0] @ x[number]) for a, b in zip(down, up, strict=True)]
            wanted[number] += SCALE * torch.cat(parts)
    wrapper = punica_cpu.PunicaWrapperCPU(len(tokens), len(tokens), "cpu")
    mapping = LoRAMapping(tuple(tokens), tuple(tokens), is_prefill=True)
    wrapper.update_metadata(mapping, SLOTS, len(SLOTS), 100)
    wrapper.add_lora_linear(y, x, down, up, SCALE, SLICES)
    return float((y - wanted).abs().max())


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=GENERATOR)


if __name__ == "__main__":
    # As the engine's process imports it.
    runpy.run_module("serve", run_name="__mp_main__")
    for batch in BATCHES:
        sys.stdout.write(f"{difference(batch)}\n")
