"""The policy that is trained: a whole model, or an adapter on one whose weights stay."""

import hashlib
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from grpo.config import LoraConfig as LoraOptions


def load_policy(folder: Path, lora: LoraOptions | None) -> PreTrainedModel:
    """As the run starts from it, in float32; what is trained requires a gradient.

    It stays in evaluation mode: dropout would make another policy of it at every step.
    """
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    if lora is None:
        return model.eval()
    # The same run starts from the same adapter.
    torch.manual_seed(lora.seed)
    options = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    adapted: PreTrainedModel = get_peft_model(model, options).eval()
    # Otherwise published adapters name the folder's place on this machine.
    adapted.peft_config["default"].base_model_name_or_path = folder.name
    return adapted


def prompt_digest(folder: Path) -> str:
    """SHA-256 (hex) of its chat template, as orchestrator-inference records it; empty without."""
    template = AutoTokenizer.from_pretrained(folder).chat_template
    return hashlib.sha256(template.encode()).hexdigest() if isinstance(template, str) else ""
