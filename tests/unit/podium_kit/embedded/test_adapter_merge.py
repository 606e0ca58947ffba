"""A merged model says what the model says with the adapter beside its weights."""

from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from podium_kit.embedded.vllm.adapter_merge import main
from unit.podium_training.grpo.builders import make_model

PROMPT = torch.tensor([[5, 6, 7, 8]])


def logits(model: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(PROMPT).logits
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_merged_model_computes_what_the_adapted_one_computes(
    tmp_path: Path, dtype: torch.dtype
) -> None:
    base, adapter, target = (tmp_path / name for name in ("base", "adapter", "target"))
    model = make_model()
    model.save_pretrained(base)
    before = logits(model)
    options = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM")
    adapted = get_peft_model(model, options).eval()
    with torch.no_grad():
        for value in adapted.parameters():
            if value.requires_grad:
                value.copy_((torch.randn(value.shape) * 0.2).to(dtype))
    expected = logits(adapted)
    adapted.to(dtype).save_pretrained(str(adapter))
    main(base, adapter, target)
    merged = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32)
    assert torch.allclose(logits(merged), expected, atol=1e-5)
    assert not torch.allclose(before, expected, atol=1e-2)
