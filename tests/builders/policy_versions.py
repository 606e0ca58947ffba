from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import PreTrainedModel

from builders.evaluations import evaluated
from podium_kit.policy_versions import Alias, Aliases, Manifest, VersionStore
from podium_training.gate import GateRules, decide, write_decision
from podium_training.grpo.publishing import Publisher
from unit.podium_training.grpo.builders import make_model, make_tokenizer

RUN = "demo"
BASE_DIGEST = "0" * 64


def make_base() -> PreTrainedModel:
    return make_model(vocabulary=len(make_tokenizer()))


def make_adapted(seed: int) -> PeftModel:
    """The base with a random adapter that changes what it says."""
    config = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"])
    model = get_peft_model(make_base(), config).eval()
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "lora_" in name:
                value.copy_(torch.randn(value.shape, generator=draw) * 0.3)
    return model


def make_publisher(root: Path, run: str = RUN) -> Publisher:
    return Publisher(VersionStore(root), run, BASE_DIGEST, make_tokenizer())


def publish_adapter(root: Path, number: int, seed: int | None = None, run: str = RUN) -> Manifest:
    model = make_adapted(number if seed is None else seed)
    return make_publisher(root, run).publish(model, number, {0: 10 * number})


def let_through(store: VersionStore, name: str, gain: float = 0.5) -> None:
    """The gate's decision about a policy that is so much better than the promoted one."""
    current = Aliases(store.root).current(Alias.PROMOTED)
    pairs = [
        (evaluated(number, name, 0.5 + gain), evaluated(number, current or "base", 0.5))
        for number in range(40)
    ]
    write_decision(store.root, decide(name, current, pairs, GateRules()))
