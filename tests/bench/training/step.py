"""One trainer's step as a process: its processor seconds and its peak memory, as JSON."""

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor
from transformers import PreTrainedModel

from podium_kit.embedded.smollm2 import SmolLM2
from podium_training.grpo.byte_adamw import ByteAdamW
from podium_training.grpo.config import LoraConfig, RecomputedName
from podium_training.grpo.model.forward import Distribution, token_logprobs
from podium_training.grpo.model.policy import load_policy
from podium_training.grpo.model.recomputing import recompute
from podium_training.grpo.model.samples import Row
from podium_training.grpo.model.trie import pack, worth_sharing
from podium_training.grpo.objective.losses import (
    Loss,
    LossOptions,
    TokenBatch,
    policy_loss,
    token_weights,
)

# Rows, prompt tokens, completion tokens; whether the rows share their prompt. Those of episodes are
# about as long as the long one: on average 809 and 17 tokens (training/LOG.md).
SHAPES = {
    "shared": (8, 224, 32, True),
    "long": (8, 600, 32, True),
    "apart": (2, 256, 256, False),
}
STEPS = 2
OPTIONS = LossOptions(loss=Loss.DAPO)


def make_rows(shape: str) -> list[Row]:
    rows, prompt, completion, shared = SHAPES[shape]
    draw = torch.Generator().manual_seed(0)

    def ids(count: int) -> tuple[int, ...]:
        return tuple(torch.randint(10, 40_000, (count,), generator=draw).tolist())

    start = ids(prompt)
    return [
        Row(start if shared else ids(prompt), ids(completion), (-10.0,) * completion)
        for _ in range(rows)
    ]


def ours(
    model: PreTrainedModel, rows: list[Row], advantages: list[float], recomputed: RecomputedName
) -> Callable[[], None]:
    """A step of our trainer: prefix-shared where that helps, the head where it is needed."""
    recompute(model, recomputed)
    weights = token_weights(OPTIONS, torch.tensor([len(row.completion_ids) for row in rows]))
    numbers = range(len(rows))
    together = all(worth_sharing(first, second) for first, second in pairwise(rows))
    batches = [list(numbers)] if together else [[number] for number in numbers]

    def backward() -> None:
        for batch in batches:
            _accumulate(model, [rows[n] for n in batch], torch.tensor(advantages)[batch], weights)

    return backward


def _accumulate(
    model: PreTrainedModel, rows: list[Row], advantages: Tensor, weights: Tensor
) -> None:
    packed = pack(rows)
    logprobs = token_logprobs(model, packed, Distribution(torch.ones(len(packed.targets)), None))
    old = logprobs.detach()
    tokens = TokenBatch(logprobs, old, old, advantages[packed.row], packed.row, weights[packed.row])
    policy_loss(tokens, OPTIONS).loss.backward()


def trl(
    model: PreTrainedModel, rows: list[Row], advantages: list[float], recomputed: str, folder: Path
) -> Callable[[], None]:
    # Here: our own process must not hold TRL and all that it imports.
    from unit.podium_training.grpo.trl_reference import trl_inputs, trl_trainer  # noqa: PLC0415

    trainer = trl_trainer(model, OPTIONS, folder, len(rows))
    if recomputed == "layers":
        # As its trainer turns on what is its default.
        model.gradient_checkpointing_enable({"use_reentrant": False})

    def backward() -> None:
        trainer._compute_loss(model, trl_inputs(rows, advantages)).backward()

    return backward


def measure(backward: Callable[[], None], optimizer: torch.optim.Optimizer) -> float:
    """Least processor seconds of a step, after one to warm up."""
    seconds = []
    for _ in range(STEPS + 1):
        started = time.process_time()
        backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.process_time() - started)
    return min(seconds[1:])


def make_optimizer(model: PreTrainedModel, averages: str) -> torch.optim.Optimizer:
    trained = [weights for weights in model.parameters() if weights.requires_grad]
    if averages == "bytes":
        return ByteAdamW(trained, lr=1e-6, weight_decay=0.01)
    # Ours, and the default of TRL's trainer.
    return torch.optim.AdamW(trained, lr=1e-6, fused=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trainer", choices=["ours", "trl"])
    parser.add_argument("shape", choices=list(SHAPES))
    parser.add_argument("trained", choices=["all", "adapter"], help="weights, or a LoRA of rank 16")
    again = ["nothing", "gates", "layers"]
    parser.add_argument("recomputed", choices=again, help="nothing: TRL; gates: ours")
    parser.add_argument("averages", choices=["float32", "bytes"], help="of AdamW")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    model = load_policy(SmolLM2().directory, LoraConfig() if chosen.trained == "adapter" else None)
    rows = make_rows(chosen.shape)
    advantages = [1.0 if number % 2 else -1.0 for number in range(len(rows))]
    with TemporaryDirectory(prefix="podium-bench-") as folder:
        if chosen.trainer == "ours":
            backward = ours(model, rows, advantages, chosen.recomputed)
        else:
            backward = trl(model, rows, advantages, chosen.recomputed, Path(folder))
        seconds = measure(backward, make_optimizer(model, chosen.averages))
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(json.dumps({"seconds": seconds, "peak_mb": peak_mb}) + "\n")


if __name__ == "__main__":
    main()
