"""The policy that `podium up` serves: as it was published, and better than the model it adapts."""

import json
from dataclasses import asdict

import pytest
import torch
import yaml
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from orchestrator_inference.models import Left, Preferences, Situation, ToolDefinition
from orchestrator_inference.prompt.budgets import SectionBudgets, room_for
from orchestrator_inference.prompt.stateless import build_stateless
from orchestrator_inference.prompt.toolset import Toolset
from podium_kit.bundled_files import bundled_folder
from podium_kit.embedded.smollm2 import SmolLM2
from podium_kit.policy_versions import VersionStore
from podium_training.grpo.model.forward import Distribution, token_logprobs
from podium_training.grpo.model.samples import Row
from podium_training.grpo.model.trie import pack
from podium_training.grpo.publishing import base_digest
from podium_training.tasks.task import Split
from podium_training.tasks.taskset import generate

pytestmark = pytest.mark.training

BYTES_MAX = 20_000_000
FAMILIES = ("arithmetic", "units", "dates", "dictionary", "facts", "retrieval", "sql", "holidays")
TERMS = "$0.000001, 0.01 s, 99%"
DESCRIPTION_CHARS_MAX, PROMPT_TOKENS_MAX = 400, 8_000


def policy_name() -> str:
    [found] = VersionStore(bundled_folder() / "policy").names()
    return str(found)


def rows() -> list[Row]:
    """The first call of held-out tasks, each behind the prompt that the orchestrator builds."""
    tokenizer = AutoTokenizer.from_pretrained(SmolLM2().directory)
    tasks = generate(len(FAMILIES), Split.HELD_OUT, seed=7, families=FAMILIES)
    tools = [tool(name) for name in sorted({name for task in tasks for name in task.tools})]
    toolset = Toolset(tools, DESCRIPTION_CHARS_MAX)
    made = []
    for task in tasks:
        situation = Situation(
            key="e/1/model/0",
            task=task.question,
            tools=tuple(tools),
            preferences=Preferences(1.0, 0.4, 0.4),
            left=Left(seconds=120.0),
        )
        room = room_for(PROMPT_TOKENS_MAX, 512, SectionBudgets())
        messages = build_stateless(situation, toolset, room, 1).messages
        prompt = tokenizer.apply_chat_template(
            [asdict(message) for message in messages], add_generation_prompt=True, return_dict=False
        )
        assert task.solution
        [first, *_] = task.solution
        call = {"tool": first.tool, "arguments": first.arguments}
        text = json.dumps(call, ensure_ascii=False, separators=(",", ":"))
        action = tokenizer.encode(text, add_special_tokens=False)
        made.append(Row(tuple(prompt), tuple(action), (0.0,) * len(action)))
    return made


def tool(name: str) -> ToolDefinition:
    """A bundled tool as its file describes it."""
    spec = yaml.safe_load((bundled_folder() / "tools" / f"{name}.yaml").read_text(encoding="utf-8"))
    return ToolDefinition(name, spec["description"], spec["parametersJsonSchema"], terms=TERMS)


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
    numbers = range(len(FAMILIES))
    gains = torch.stack([(after - before)[packed.row == number].mean() for number in numbers])
    assert gains.min() > 0.1
    assert gains.mean() > 0.5
