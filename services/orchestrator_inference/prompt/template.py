"""The paper's layout for models that know tools by their own chat template.

The messages are those of the stateless layout without a word on tools: the template writes them,
from the definitions that go along, in the form the model was trained with. Qwen3 and the paper's
checkpoints call tools as `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestrator_inference.action.schema import parameters_of
from orchestrator_inference.models import PromptTool, Situation
from orchestrator_inference.prompt import parts
from orchestrator_inference.prompt.budgets import Room, estimated_tokens
from orchestrator_inference.prompt.fitting import Prompt, shown_tools
from orchestrator_inference.prompt.stateless import laid_out, needed_tokens
from orchestrator_inference.prompt.tool_listing import shortened
from orchestrator_inference.prompt.toolset import PromptToolset

SYSTEM = "You are good at using tools."
MUST_ANSWER = "This is the last turn: give the final answer now."


def build_template(
    situation: Situation, toolset: PromptToolset, room: Room, calls_max: int
) -> Prompt:
    wanted = parts.wanted(situation, MUST_ANSWER)
    callable_tools = [tool for tool in situation.tools if situation.rules.may_call(tool.name)]
    offered = replace(situation, tools=tuple(callable_tools))
    needed = estimated_tokens(SYSTEM) + needed_tokens(situation, toolset, room, wanted)
    shown = shown_tools(offered, room, needed, _tokens)
    functions = _functions(shown.tools, shown.description_chars_max)
    system = "\n".join(part for part in (SYSTEM, shown.note()) if part)
    prompt = laid_out(
        situation,
        toolset,
        room,
        system=system,
        wanted=wanted,
        shown=shown,
        taken=_tokens(shown.tools, shown.description_chars_max),
    )
    return replace(prompt, functions=functions)


def _tokens(tools: Sequence[PromptTool], description_chars_max: int) -> int:
    return estimated_tokens(json.dumps(_functions(tools, description_chars_max)))


def _functions(
    tools: Sequence[PromptTool], description_chars_max: int
) -> tuple[Mapping[str, Any], ...]:
    return tuple(
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": _description(tool, description_chars_max),
                "parameters": parameters_of(tool),
            },
        }
        for tool in tools
    )


def _description(tool: PromptTool, chars_max: int) -> str:
    """The notes before the prose, which alone is cut."""
    notes = f"[{tool.notes}] " if tool.notes else ""
    return notes + shortened(tool.description, chars_max)
