"""Recomputation in the backward pass instead of stored activations: the same bits, less memory."""

from functools import partial
from types import MethodType
from typing import Any

from peft import PeftModel
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from podium_training.grpo.config import RecomputedName

# Those of transformers that compute exactly what `_gated` does.
GATED = {"LlamaMLP", "MistralMLP", "Qwen2MLP", "Qwen3MLP"}
KEPT_INPUTS: dict[str, Any] = {"use_reentrant": False, "preserve_rng_state": False}


def recompute(model: PreTrainedModel | PeftModel, what: RecomputedName) -> None:
    """Gates: two of the widest four tensors of a layer, at the cost of making them elementwise.

    Layers: all but a layer's input, at the cost of a second pass forward.
    """
    decoder = model.get_decoder()
    if what == "layers":
        for layer in decoder.layers:
            layer.forward = partial(checkpoint, layer.forward, **KEPT_INPUTS)
        return
    for module in decoder.modules():
        if type(module).__name__ in GATED:
            module.forward = MethodType(_gated, module)


def _gated(mlp: Any, hidden: Tensor) -> Tensor:
    # On the way back it ends where the last product has its input: that is not multiplied again.
    gate, up = mlp.gate_proj(hidden), mlp.up_proj(hidden)
    found: Tensor = checkpoint(partial(_down, mlp), gate, up, **KEPT_INPUTS)
    return found


def _down(mlp: Any, gate: Tensor, up: Tensor) -> Tensor:
    found: Tensor = mlp.down_proj(mlp.act_fn(gate) * up)
    return found
