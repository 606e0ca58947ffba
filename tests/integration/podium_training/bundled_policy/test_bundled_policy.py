"""The policy that `podium up` serves: as it was published, and better than the model it adapts."""

import json
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from podium_kit.bundled_files import bundled_folder
from podium_kit.embedded.smollm2 import SmolLM2
from podium_kit.policy_versions import VersionStore
from podium_training.grpo.model.forward import Distribution, token_logprobs
from podium_training.grpo.model.samples import Row
from podium_training.grpo.model.trie import pack
from podium_training.grpo.publishing import base_digest

pytestmark = pytest.mark.training

BYTES_MAX = 20_000_000
# Prompts of held-out tasks as the platform wrote them, and the known solutions' first calls.
HELD_OUT = json.loads(Path(__file__).with_name("held_out.json").read_text(encoding="utf-8"))


def policy_name() -> str:
    [found] = VersionStore(bundled_folder() / "policy").names()
    return str(found)


def rows() -> list[Row]:
    tokenizer = AutoTokenizer.from_pretrained(SmolLM2().directory)
    made = []
    for case in HELD_OUT["cases"]:
        messages = [
            {"role": "system", "content": HELD_OUT["system"]},
            {"role": "user", "content": case["user"]},
        ]
        prompt = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=False
        )
        action = tokenizer.encode(case["action"], add_special_tokens=False)
        made.append(Row(tuple(prompt), tuple(action), (0.0,) * len(action)))
    return made


def test_it_is_what_was_published_for_the_model_it_is_merged_into() -> None:
    store = VersionStore(bundled_folder() / "policy")
    manifest = store.verified(policy_name())
    assert manifest.base_digest == base_digest(SmolLM2().directory)
    assert sum(path.stat().st_size for path in store.root.rglob("*")) < BYTES_MAX


def test_it_finds_the_right_calls_likelier_than_the_model_it_adapts() -> None:
    """Each call of tasks whose phrasings and entities it never saw, and all by half a nat."""
    packed = pack(rows())
    whole = Distribution(torch.ones(len(packed.targets)), None)
    model = AutoModelForCausalLM.from_pretrained(SmolLM2().directory, dtype=torch.float32).eval()
    with torch.no_grad():
        before = token_logprobs(model, packed, whole)
        folder = bundled_folder() / "policy" / policy_name()
        adapted = PeftModel.from_pretrained(model, str(folder)).eval()
        after = token_logprobs(adapted, packed, whole)
    numbers = range(len(HELD_OUT["cases"]))
    gains = torch.stack([(after - before)[packed.row == number].mean() for number in numbers])
    assert gains.min() > 0.1
    assert gains.mean() > 0.5
