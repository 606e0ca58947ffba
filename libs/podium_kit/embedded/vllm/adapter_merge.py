"""Runs inside vLLM's environment: a model folder and a LoRA adapter to a folder with both in one.

W' = W + (alpha / r) B A for every adapted layer (arXiv 2106.09685), computed in float32.
"""

import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

WEIGHTS = "model.safetensors"
ADAPTER = "adapter_model.safetensors"
# How PEFT names what it adapts.
PREFIX, DOWN, UP = "base_model.model.", ".lora_A.weight", ".lora_B.weight"


def main(base: Path, adapter: Path, target: Path) -> None:
    weights = load_file(base / WEIGHTS)
    config = json.loads((adapter / "adapter_config.json").read_text())
    merge(weights, load_file(adapter / ADAPTER), config["lora_alpha"] / config["r"])
    shutil.copytree(base, target, ignore=shutil.ignore_patterns(WEIGHTS))
    save_file(weights, target / WEIGHTS, metadata={"format": "pt"})


def merge(weights: dict[str, torch.Tensor], adapter: dict[str, torch.Tensor], scale: float) -> None:
    for name in [name for name in adapter if name.endswith(DOWN)]:
        layer = f"{name.removeprefix(PREFIX).removesuffix(DOWN)}.weight"
        up, down = adapter[name.replace(DOWN, UP)], adapter[name]
        change = scale * up.float() @ down.float()
        weights[layer] = (weights[layer].float() + change).to(weights[layer].dtype)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
