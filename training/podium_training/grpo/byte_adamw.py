"""AdamW that keeps a byte of each of its two averages, where torch's keeps four.

The averages are held in blocks of neighbours, relative to the largest of the block; that of squares
as its root, so that a byte spans twice the magnitudes. A value between two bytes becomes either, as
often as it is near it: a change that is too small for a byte comes now and then instead of never.

torchao's AdamW8bit compiles itself at its first step, which takes a C++ compiler, and cuts averages
for another number of processes only where that falls between its blocks.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from jaxtyping import Float32, Int8
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.optim.adamw import adamw

from podium_training.grpo.process_group import sharded_like

BLOCK = 64
# Weights computed at once: all in between stays in the processor's cache.
CHUNK = 1 << 18
# The noise of rounding begins elsewhere at every step and chunk, and the same after a restart.
STEP_STRIDE, CHUNK_STRIDE = 7919, 104_729
# Of codes. Roots have no sign: theirs are held less the middle.
MEAN_MAX, ROOT_MAX, MIDDLE = 127, 255, 128
# A little less than to the next code: from the greatest there is none.
NOISE = 0.499
# Of a block of zeros: what is divided by it stays 0.
SCALE_MIN = 1e-30

Weights = Float32[Tensor, " weights"]
Codes = Int8[Tensor, " weights"]
Scales = Float32[Tensor, " blocks"]
Chunk = tuple[Weights, Weights, Codes, Scales, Codes, Scales]


class ByteAdamW(torch.optim.Optimizer):
    """AdamW with averages of 8 bits; float32 for weights whose rows are not whole blocks."""

    def __init__(
        self,
        weights: Iterable[Tensor],
        lr: float,
        weight_decay: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        settings = {"lr": lr, "weight_decay": weight_decay, "betas": betas, "eps": eps}
        # Recorded in checkpoints: their averages are of no use to another optimizer.
        super().__init__(weights, {**settings, "block": BLOCK})
        draw = torch.Generator().manual_seed(0)
        noise = torch.empty(2 * CHUNK).uniform_(-NOISE, NOISE, generator=draw)
        self._noise = noise.to(self.param_groups[0]["params"][0].device)

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            chunks = 0
            for weights in group["params"]:
                if weights.grad is None:
                    continue
                state = self.state[weights]
                if not state:
                    state.update(_zeros(weights))
                if "mean" not in state:
                    _whole_step(weights, state, group)
                    continue
                state["step"] += 1
                for chunk in _chunks(weights, state):
                    self._chunk_step(chunk, group, int(state["step"]), chunks)
                    chunks += 1

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        super().load_state_dict({**state_dict, "state": {}})
        weights = [each for group in self.param_groups for each in group["params"]]
        for number, state in state_dict["state"].items():
            self.state[weights[number]] = {
                key: value if key == "step" else value.to(weights[number].device)
                for key, value in state.items()
            }

    def _chunk_step(self, chunk: Chunk, group: Mapping[str, Any], step: int, number: int) -> None:
        weights, gradient, mean, mean_scale, root, root_scale = chunk
        mean_beta, square_beta = group["betas"]
        gradient = _blocks(gradient)
        means = _blocks(mean.float()).mul_(mean_scale.mul_(mean_beta)[:, None])
        means.add_(gradient, alpha=1 - mean_beta)
        decayed = root_scale.mul_(math.sqrt(square_beta))
        roots = _blocks(root.float()).add_(MIDDLE).mul_(decayed[:, None])
        # torch's own square is several times slower.
        roots.mul_(roots).addcmul_(gradient, gradient, value=1 - square_beta).sqrt_()

        start = (step * STEP_STRIDE + number * CHUNK_STRIDE) % CHUNK
        noise = _blocks(self._noise[start : start + len(weights)])
        torch.div(means.abs().amax(dim=-1), MEAN_MAX, out=mean_scale).clamp_(min=SCALE_MIN)
        codes = torch.addcmul(noise, means, mean_scale.reciprocal()[:, None])
        mean.copy_(codes.round_().flatten())
        torch.div(roots.amax(dim=-1), ROOT_MAX, out=root_scale).clamp_(min=SCALE_MIN)
        torch.addcmul(noise, roots, root_scale.reciprocal()[:, None], out=codes)
        # Never 0: nothing is divided by what was rounded away.
        codes.round_().clamp_(1, ROOT_MAX).sub_(MIDDLE)
        root.copy_(codes.flatten())

        weights.mul_(1 - group["lr"] * group["weight_decay"])
        correction = math.sqrt(1 - square_beta**step)
        rate = group["lr"] * correction / (1 - mean_beta**step)
        _blocks(weights).addcdiv_(means, roots.add_(group["eps"] * correction), value=-rate)


def _zeros(weights: Tensor) -> dict[str, Tensor]:
    step = torch.tensor(0.0)
    if weights.ndim < 2 or weights.shape[-1] % BLOCK:
        zeros = (torch.zeros_like(weights) for _ in range(2))
        return dict(zip(("step", "exp_avg", "exp_avg_sq"), (step, *zeros), strict=True))
    blocks = (*weights.shape[:-1], weights.shape[-1] // BLOCK)
    scales = torch.zeros(blocks, device=weights.device)
    return {
        "step": step,
        "mean": torch.zeros_like(weights, dtype=torch.int8),
        "mean_scale": sharded_like(scales, weights),
        "root": torch.full_like(weights, -MIDDLE, dtype=torch.int8),
        "root_scale": sharded_like(scales.clone(), weights),
    }


def _whole_step(weights: Tensor, state: Mapping[str, Tensor], group: Mapping[str, Any]) -> None:
    mean_beta, square_beta = group["betas"]
    adamw(
        [weights],
        [_gradient(weights)],
        [state["exp_avg"]],
        [state["exp_avg_sq"]],
        [],
        [state["step"]],
        amsgrad=False,
        beta1=mean_beta,
        beta2=square_beta,
        lr=group["lr"],
        weight_decay=group["weight_decay"],
        eps=group["eps"],
        maximize=False,
    )


def _chunks(weights: Tensor, state: Mapping[str, Tensor]) -> Iterator[Chunk]:
    """This process's part of the weights, flat, with their gradients and averages."""
    flat = {key: _local(value).reshape(-1) for key, value in state.items()}
    whole, gradient = (_local(each).reshape(-1) for each in (weights, _gradient(weights)))
    for start in range(0, len(whole), CHUNK):
        here = slice(start, start + CHUNK)
        blocks = slice(start // BLOCK, (start + CHUNK) // BLOCK)
        mean, root = (flat[key][here] for key in ("mean", "root"))
        mean_scale, root_scale = (flat[key][blocks] for key in ("mean_scale", "root_scale"))
        yield whole[here], gradient[here], mean, mean_scale, root, root_scale


def _gradient(weights: Tensor) -> Tensor:
    if weights.grad is None:
        raise RuntimeError("weights without a gradient are not stepped")
    return weights.grad


def _local(tensor: Tensor) -> Tensor:
    found: Tensor = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return found


def _blocks(values: Tensor) -> Tensor:
    return values.view(-1, BLOCK)
