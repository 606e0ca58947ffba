"""Runs inside vLLM: LoRA on a CPU takes two products for each adapter of a batch.

vLLM's own code copies the adapter for every token, which took a minute for a prompt of 1,200
tokens at rank 32. It also reads index -1, a token without an adapter, as the last slot.
"""

from collections.abc import Sequence
from typing import Any

import torch
from vllm.lora.punica_wrapper import punica_cpu

Rows = slice | torch.Tensor
"""Rows of a batch: all, or those with these numbers."""


class GroupedLora(punica_cpu.PunicaWrapperCPU):  # type: ignore[misc]
    _groups: Sequence[tuple[int, Rows]] = ()

    def update_metadata(self, *args: Any, **kwargs: Any) -> None:
        super().update_metadata(*args, **kwargs)
        self._groups = groups(self.token_lora_indices)

    def _apply_shrink(
        self, y: torch.Tensor, x: torch.Tensor, w_t_all: torch.Tensor, scale: float
    ) -> None:
        for slot, rows in self._groups:
            y[rows] = scale * (x[rows] @ _matrix(w_t_all, slot).T).to(y.dtype)

    def _apply_expand(  # noqa: PLR0917 as vLLM calls it
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        w_t_all: torch.Tensor,
        y_offset: int,
        y_slice_size: int,
        add_inputs: bool = True,
    ) -> None:
        columns = y[:, y_offset : y_offset + y_slice_size]
        for slot, rows in self._groups:
            part = x[rows].to(y.dtype) @ _matrix(w_t_all, slot).T
            columns[rows] = columns[rows] + part if add_inputs else part


def install() -> None:
    """Before an engine starts: vLLM looks the class up by its name."""
    punica_cpu.PunicaWrapperCPU = GroupedLora


def groups(slots: torch.Tensor) -> list[tuple[int, Rows]]:
    """Each adapter's slot with its tokens; tokens without one have index -1."""
    used = [int(slot) for slot in slots.unique()]
    if len(used) == 1 and used[0] >= 0:
        return [(used[0], slice(None))]
    return [(slot, (slots == slot).nonzero().squeeze(1)) for slot in used if slot >= 0]


def _matrix(stacked: torch.Tensor, slot: int) -> torch.Tensor:
    """One slot of weights of shape (slots, 1, out, in) or (slots, out, in)."""
    return stacked[slot].reshape(-1, stacked.shape[-1])
