"""`python -m bench.training.gpu`: a training step on this machine's GPU, beside TRL's.

Weights are random, in the shape of a model: they change neither time nor memory, and a machine that
reaches no model hub can measure all of them. Products are in bfloat16, weights in float32.
"""

import argparse
import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    PretrainedConfig,
    PreTrainedModel,
    Qwen3Config,
)

from bench.figures import Figures, say
from podium_training.grpo.model.forward import Distribution, token_logprobs
from podium_training.grpo.model.recomputing import recompute
from podium_training.grpo.model.samples import Row
from podium_training.grpo.model.trie import pack
from podium_training.grpo.objective.losses import (
    Loss,
    LossOptions,
    TokenBatch,
    policy_loss,
    token_weights,
)
from unit.podium_training.grpo.trl_reference import trl_inputs, trl_trainer

OPTIONS = LossOptions(loss=Loss.DAPO)
STEPS = 5
CUDA = torch.device("cuda")
# As their makers describe them.
MODELS: dict[str, PretrainedConfig] = {
    "smollm2-135m": LlamaConfig(
        vocab_size=49_152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    ),
    "qwen3-8b": Qwen3Config(
        vocab_size=151_936,
        hidden_size=4096,
        intermediate_size=12_288,
        num_hidden_layers=36,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        max_position_embeddings=40_960,
        tie_word_embeddings=False,
    ),
}


@dataclass(frozen=True)
class Case:
    """A model, what of it is trained, and a group's rows that share a prompt."""

    model: str
    trained: str
    """All weights, or an adapter of rank 16."""
    rows: int
    prompt: int
    completion: int

    @property
    def tokens(self) -> int:
        return self.rows * (self.prompt + self.completion)


CASES = {
    "small_all": Case("smollm2-135m", "all", 8, 1024, 64),
    "small_adapter": Case("smollm2-135m", "adapter", 8, 1024, 64),
    "large_adapter": Case("qwen3-8b", "adapter", 8, 1024, 64),
}


def make_rows(case: Case) -> list[Row]:
    draw = torch.Generator().manual_seed(0)

    def ids(count: int) -> tuple[int, ...]:
        return tuple(torch.randint(10, 40_000, (count,), generator=draw).tolist())

    start = ids(case.prompt)
    return [Row(start, ids(case.completion), (-10.0,) * case.completion) for _ in range(case.rows)]


def make_model(case: Case) -> PreTrainedModel:
    torch.manual_seed(0)
    with CUDA:
        model = AutoModelForCausalLM.from_config(
            MODELS[case.model], dtype=torch.float32, attn_implementation="sdpa"
        )
    if case.trained == "all":
        return model.eval()
    options = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    adapted: PreTrainedModel = get_peft_model(model, options).eval()
    return adapted


def ours(model: PreTrainedModel, rows: list[Row], advantages: list[float]) -> Callable[[], None]:
    """A step of our trainer with its defaults: one tree, of which the prompt is the trunk."""
    recompute(model, "gates")
    weights = token_weights(OPTIONS, torch.tensor([len(row.completion_ids) for row in rows]))

    def backward() -> None:
        packed = pack(rows)
        row = packed.row
        earned, shares = (each[row].to(CUDA) for each in (torch.tensor(advantages), weights))
        packed = packed.to(CUDA)
        sampled = Distribution(torch.ones(len(packed.targets), device=CUDA), None)
        with torch.autocast("cuda", torch.bfloat16):
            logprobs = token_logprobs(model, packed, sampled)
        old = logprobs.detach()
        policy_loss(
            TokenBatch(logprobs, old, old, earned, packed.row, shares), OPTIONS
        ).loss.backward()

    return backward


def trl(
    model: PreTrainedModel, rows: list[Row], advantages: list[float], recomputed: bool, folder: Path
) -> Callable[[], None]:
    trainer = trl_trainer(model, OPTIONS, folder, len(rows), use_cpu=False)
    if recomputed:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    inputs = {
        name: value.to(CUDA) if isinstance(value, Tensor) else value
        for name, value in trl_inputs(rows, advantages).items()
    }

    def backward() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            loss = trainer._compute_loss(model, inputs)
        loss.backward()

    return backward


def measure(backward: Callable[[], None], optimizer: torch.optim.Optimizer) -> float:
    """Least seconds of a step, after two to warm up."""
    seconds = []
    for _ in range(STEPS + 2):
        torch.cuda.synchronize()
        started = time.perf_counter()
        backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return min(seconds[2:])


def measured(trainer: str, case: Case) -> dict[str, float] | None:
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    try:
        seconds = _seconds(trainer, case)
    except torch.OutOfMemoryError:
        return None
    return {
        "tokens_per_s": round(case.tokens / seconds),
        "step_s": round(seconds, 4),
        "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2),
    }


def _seconds(trainer: str, case: Case) -> float:
    model, rows = make_model(case), make_rows(case)
    advantages = [1.0 if number % 2 else -1.0 for number in range(len(rows))]
    trained = [weights for weights in model.parameters() if weights.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-6, fused=True)
    with TemporaryDirectory(prefix="podium-bench-") as folder:
        if trainer == "ours":
            return measure(ours(model, rows, advantages), optimizer)
        recomputed = trainer == "trl-layers"
        return measure(trl(model, rows, advantages, recomputed, Path(folder)), optimizer)


def compare(name: str, figures: Figures) -> None:
    """Both trainers on one case, TRL's with and without computing layers again."""
    case = CASES[name]
    say(f"{name}: {case}")
    mine = measured("ours", case)
    figures.note(f"{name}.ours", mine or "out of memory")
    for trainer in ("trl", "trl-layers"):
        theirs = measured(trainer, case)
        figures.note(f"{name}.{trainer}", theirs or "out of memory")
        if mine and theirs:
            speed = mine["tokens_per_s"] / theirs["tokens_per_s"]
            memory = theirs["peak_gib"] / mine["peak_gib"]
            figures.ratio(f"training.gpu_speed_{name}_over_{trainer}", speed, ">=", 1.0)
            figures.ratio(f"training.gpu_memory_{name}_over_{trainer}", memory, ">=", 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.training.gpu", description=__doc__)
    parser.add_argument("--case", action="append", choices=list(CASES), help="all by default")
    chosen = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("torch sees no GPU here; `make bench-training` measures on the processor")
    figures = Figures("training-gpu")
    figures.note("gpu", torch.cuda.get_device_name())
    for name in chosen.case or CASES:
        compare(name, figures)
    figures.write()


if __name__ == "__main__":
    main()
