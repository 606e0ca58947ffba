"""First turns as the orchestrator asks its model for them, and how likely each reply is."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

import torch
import yaml
from peft import PeftModel
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from orchestrator_inference.action.schema import ActionOptions, build_constraint
from orchestrator_inference.models import CallEstimate, Left, Preferences, PromptTool, Situation
from orchestrator_inference.prompt.budgets import SectionBudgets, room_for
from orchestrator_inference.prompt.stateless import build_stateless
from orchestrator_inference.prompt.toolset import PromptToolset
from podium_kit.bundled_files import bundled_folder
from podium_kit.embedded.smollm2 import SmolLM2
from podium_kit.money import Money
from podium_kit.policy_versions import VersionStore
from podium_training.grpo.model.forward import Distribution, token_logprobs
from podium_training.grpo.model.grammar import Constraint, GrammarReplay
from podium_training.grpo.model.samples import Row
from podium_training.grpo.model.trie import pack

COST = Money.parse("0.000001", "USD")
TERMS = "$0.000001, 0.01 s, 99%"
DESCRIPTION_CHARS_MAX, PROMPT_TOKENS_MAX, COMPLETION_TOKENS = 400, 8_000, 512


def policy_name() -> str:
    [found] = VersionStore(bundled_folder() / "policy").names()
    return str(found)


@cache
def policy() -> PeftModel:
    model = AutoModelForCausalLM.from_pretrained(SmolLM2().directory, dtype=torch.float32)
    return PeftModel.from_pretrained(model, str(bundled_folder() / "policy" / policy_name())).eval()


@cache
def tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(SmolLM2().directory)


def bundled_tool(name: str) -> PromptTool:
    spec = yaml.safe_load((bundled_folder() / "tools" / f"{name}.yaml").read_text(encoding="utf-8"))
    schema, estimate = spec["parametersJsonSchema"], CallEstimate("", COST, 0.01)
    return PromptTool(name, spec["description"], schema, terms=TERMS, estimates=(estimate,))


def prompt_ids(
    task: str, tools: Sequence[PromptTool], weights: Preferences, instruction: str = ""
) -> tuple[int, ...]:
    situation = Situation(
        key="e/1/model/0",
        task=task,
        instruction=instruction,
        tools=tuple(tools),
        preferences=weights,
        left=Left(seconds=120.0),
    )
    room = room_for(PROMPT_TOKENS_MAX, COMPLETION_TOKENS, SectionBudgets())
    built = build_stateless(situation, PromptToolset(tools, DESCRIPTION_CHARS_MAX), room, 1)
    messages = [asdict(message) for message in built.messages]
    ids = tokenizer().apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    return tuple(ids)


def reply(tool: str, arguments: Mapping[str, Any]) -> str:
    """The model's words for a call, as the grammar has them."""
    call = {"tool": tool, "arguments": dict(arguments)}
    return json.dumps(call, ensure_ascii=False, separators=(",", ":"))


def row(prompt: tuple[int, ...], reply: str) -> Row:
    ids = tokenizer().encode(reply, add_special_tokens=False)
    return Row(prompt, tuple(ids), (0.0,) * len(ids))


def logprobs(
    model: PreTrainedModel, rows: Sequence[Row], tools: Sequence[PromptTool] = ()
) -> list[torch.Tensor]:
    packed = pack(rows)
    legal = None
    if tools:
        replay = GrammarReplay(tokenizer(), model.config.vocab_size)
        schema = build_constraint(tools, ActionOptions(COMPLETION_TOKENS)).schema_json
        constraint = Constraint(schema, any_whitespace=False)
        legal = torch.cat([replay.legal(constraint, each.completion_ids) for each in rows])
    with torch.no_grad():
        found = token_logprobs(model, packed, Distribution(torch.ones(len(packed.targets)), legal))
    return [found[packed.row == number] for number in range(len(rows))]
