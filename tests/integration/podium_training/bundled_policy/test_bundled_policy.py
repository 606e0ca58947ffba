import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from integration.podium_training.bundled_policy.first_turns import (
    bundled_tool,
    logprobs,
    policy_name,
    prompt_ids,
    reply,
    row,
)
from orchestrator_inference.models import Preferences
from podium_kit.bundled_files import bundled_folder
from podium_kit.embedded.smollm2 import SmolLM2
from podium_kit.policy_versions import VersionStore
from podium_training.grpo.model.samples import Row
from podium_training.grpo.publishing import base_digest
from podium_training.tasks.task import Split
from podium_training.tasks.taskset import generate

pytestmark = pytest.mark.training

BYTES_MAX = 20_000_000
FAMILIES = ("arithmetic", "units", "dates", "dictionary", "facts", "retrieval", "sql", "holidays")


def rows() -> list[Row]:
    """The first call of held-out tasks, each behind the prompt that the orchestrator builds."""
    tasks = generate(len(FAMILIES), Split.HELD_OUT, seed=7, families=FAMILIES)
    tools = [bundled_tool(name) for name in sorted({name for task in tasks for name in task.tools})]
    made = []
    for task in tasks:
        assert task.solution
        [first, *_] = task.solution
        prompt = prompt_ids(task.question, tools, Preferences(1.0, 0.4, 0.4))
        made.append(row(prompt, reply(first.tool, first.arguments)))
    return made


def test_it_is_what_was_published_for_the_model_it_is_merged_into() -> None:
    store = VersionStore(bundled_folder() / "policy")
    manifest = store.verified(policy_name())
    assert manifest.base_digest == base_digest(SmolLM2().directory)
    assert sum(path.stat().st_size for path in store.root.rglob("*")) < BYTES_MAX


def test_it_finds_the_right_calls_likelier_than_the_model_it_adapts() -> None:
    asked = rows()
    model = AutoModelForCausalLM.from_pretrained(SmolLM2().directory, dtype=torch.float32).eval()
    before = logprobs(model, asked)
    folder = bundled_folder() / "policy" / policy_name()
    after = logprobs(PeftModel.from_pretrained(model, str(folder)).eval(), asked)
    pairs = zip(before, after, strict=True)
    gains = torch.stack([(better - worse).mean() for worse, better in pairs])
    assert gains.min() > 0.1
    assert gains.mean() > 0.5
