import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model, set_peft_model_state_dict
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from podium_training.grpo.config import InvalidConfig
from podium_training.grpo.config import LoraConfig as LoraOptions


def load_policy(folder: Path, lora: LoraOptions | None) -> PreTrainedModel:
    """Loads the policy that the run starts from, in float32; trained weights require a gradient.

    It stays in evaluation mode: dropout would make another policy of it at every step.
    Raises InvalidConfig where the folder holds no model.
    """
    if not (folder / "config.json").is_file():
        raise InvalidConfig(f"model: {folder} holds no model: there is no config.json in it")
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
    if lora.start is not None:
        _take_over(adapted, lora.start)
        _check_alpha(lora.alpha, lora.start)
    # Otherwise published adapters name the folder's place on this machine.
    adapted.peft_config["default"].base_model_name_or_path = folder.name
    return adapted


def _take_over(adapted: PreTrainedModel, folder: Path) -> None:
    try:
        weights = load_file(folder / "adapter_model.safetensors")
        result: Any = set_peft_model_state_dict(adapted, weights)
    except (OSError, SafetensorError, RuntimeError) as error:
        raise InvalidConfig(
            f"lora.start: {folder} holds no adapter of this rank: {error}"
        ) from error
    missing = [name for name in result.missing_keys if "lora_" in name]
    if missing or result.unexpected_keys:
        raise InvalidConfig(
            f"lora.start: {folder} is of other layers: {[*missing, *result.unexpected_keys][0]}"
        )


def _check_alpha(alpha: int, folder: Path) -> None:
    try:
        text = (folder / "adapter_config.json").read_text(encoding="utf-8")
        trained_with = json.loads(text)["lora_alpha"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InvalidConfig(
            f"lora.start: {folder} has no adapter_config.json that states lora_alpha: {error!r}"
        ) from error
    if alpha != trained_with:
        raise InvalidConfig(
            f"lora.alpha: {folder} was trained with alpha {trained_with} and would say something"
            f" else with {alpha}; set `alpha: {trained_with}`"
        )


def prompt_digest(folder: Path) -> str:
    """SHA-256 (hex) of its chat template, as orchestrator-inference records it; empty without."""
    template = AutoTokenizer.from_pretrained(folder).chat_template
    return hashlib.sha256(template.encode()).hexdigest() if isinstance(template, str) else ""
