"""TRL's own trainer, given our rows: the reference our losses and gradients are compared with."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from podium_training.grpo.model.samples import Row
from podium_training.grpo.objective.losses import Loss, LossOptions
from unit.podium_training.grpo.builders import make_tokenizer

if TYPE_CHECKING:
    from trl import GRPOTrainer


def trl_loss(
    model: LlamaForCausalLM,
    rows: Sequence[Row],
    advantages: Sequence[float],
    options: LossOptions,
    folder: Path,
    old: Tensor | None = None,
    reference: Tensor | None = None,
) -> Tensor:
    trainer = trl_trainer(model, options, folder, len(rows))
    inputs = trl_inputs(rows, advantages)
    if old is not None:
        inputs["old_per_token_logps"] = old
    if reference is not None:
        inputs["ref_per_token_logps"] = reference
    loss: Tensor = trainer._compute_loss(model, inputs)
    return loss


def trl_trainer(
    model: LlamaForCausalLM, options: LossOptions, folder: Path, rows: int, *, use_cpu: bool = True
) -> "GRPOTrainer":
    # Here: every test process collects this module, and one of them trains.
    from datasets import Dataset  # noqa: PLC0415
    from trl import GRPOConfig, GRPOTrainer  # noqa: PLC0415

    # TRL's CISPO bounds the weight itself, ours says how far above 1 it may be.
    high = options.clip_high + (1.0 if options.loss is Loss.CISPO else 0.0)
    config = GRPOConfig(
        output_dir=str(folder),
        use_cpu=use_cpu,
        bf16=False,
        gradient_checkpointing=False,
        per_device_train_batch_size=rows,
        num_generations=rows,
        loss_type=options.loss.value,
        importance_sampling_level=options.level.value,
        epsilon=options.clip_low,
        epsilon_high=high,
        delta=options.dual_clip,
        max_completion_length=options.length_max,
        beta=0.0,
        use_bias_correction_kl=options.kl_unbiased,
        report_to=[],
    )
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=config,
        train_dataset=Dataset.from_dict({"prompt": ["a"]}),
        processing_class=make_tokenizer(),
    )
    # Set late: with it set from the start TRL would copy the model as its reference.
    trainer.beta = options.kl_coefficient
    # What `train` sets before the first step.
    trainer.current_gradient_accumulation_steps = 1
    model.train()
    return trainer


def trl_inputs(rows: Sequence[Row], advantages: Sequence[float]) -> dict[str, Any]:
    """A batch as TRL's trainer takes it: padded rows and masks."""
    prompts = _padded([list(row.prompt_ids) for row in rows], left=True)
    completions = _padded([list(row.completion_ids) for row in rows], left=False)
    return {
        "prompt_ids": prompts[0],
        "prompt_mask": prompts[1],
        "completion_ids": completions[0],
        "completion_mask": completions[1],
        "advantages": torch.tensor(advantages),
        "num_items_in_batch": completions[1].sum(),
    }


def _padded(ids: Sequence[list[int]], *, left: bool) -> tuple[Tensor, Tensor]:
    longest = max(map(len, ids))
    tokens, mask = [], []
    for row in ids:
        padding = [2] * (longest - len(row))
        tokens.append(padding + row if left else row + padding)
        ones, zeros = [1] * len(row), [0] * len(padding)
        mask.append(zeros + ones if left else ones + zeros)
    return torch.tensor(tokens), torch.tensor(mask)
