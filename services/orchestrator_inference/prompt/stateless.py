"""The paper's layout for questions, rebuilt every turn.

One short system line with the tools; one user message with the problem, then
documents, then code with outputs, then earlier attempts with their errors, then the
instruction to pick. No chat history: what the model reads is what is known so far.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestrator_inference.action.schema import parameters_of
from orchestrator_inference.models import (
    Message,
    Observation,
    PastTurn,
    PromptTool,
    ResultSection,
    Situation,
)
from orchestrator_inference.prompt import parts
from orchestrator_inference.prompt.budgets import Room, estimated_tokens, keep_end
from orchestrator_inference.prompt.fitting import (
    SEPARATORS_TOKENS,
    Prompt,
    ShownTools,
    cut_to,
    shown_tools,
)
from orchestrator_inference.prompt.toolset import PromptToolset, shortened

SYSTEM = "You are good at using tools."
MUST_ANSWER = "This is the last turn: give the final answer now."


def build_stateless(
    situation: Situation, toolset: PromptToolset, room: Room, calls_max: int
) -> Prompt:
    request = parts.request_line(situation, parts.wanted(situation, parts.MUST_ANSWER))
    bare = estimated_tokens(parts.system_line(parts.NO_LINES, calls_max))
    needed = bare + needed_tokens(situation, toolset, room, request)
    shown = shown_tools(situation, room, needed, toolset.listing_tokens)
    system = parts.system_line(toolset.listing_of(shown), calls_max)
    return laid_out(situation, toolset, room, system=system, request=request, shown=shown)


def needed_tokens(situation: Situation, toolset: PromptToolset, room: Room, request: str) -> int:
    """Returns the most tokens of all parts but the tools, by the budgets of its sections."""
    blocks, _ = _blocks(situation, toolset, room, request, room.prompt_tokens)
    return sum(estimated_tokens(block) for block in blocks) + SEPARATORS_TOKENS


def laid_out(
    situation: Situation,
    toolset: PromptToolset,
    room: Room,
    *,
    system: str,
    request: str,
    shown: ShownTools,
    taken: int = 0,
) -> Prompt:
    left = room.prompt_tokens - taken - estimated_tokens(system)
    blocks, cut = _blocks(situation, toolset, room, request, left)
    text = "\n\n".join(block for block in blocks if block)
    messages = [Message("system", system), Message("user", text)]
    return Prompt(messages, (*shown.left_out(), *cut))


def _blocks(
    situation: Situation, toolset: PromptToolset, room: Room, request: str, left: int
) -> tuple[list[str], list[str]]:
    problem = f"Problem: {parts.problem(situation)}"
    fixed = estimated_tokens(request) + estimated_tokens(problem) + SEPARATORS_TOKENS
    left = max(0, left - fixed)
    conversation, cut = cut_to(_conversation(situation), left // 4)
    left -= estimated_tokens(conversation)
    known, known_cut = _known(situation, toolset, room, left)
    blocks = [_titled("Conversation so far", conversation), problem, *known, request]
    return blocks, [*(["the beginning of the conversation"] if cut else []), *known_cut]


def _known(
    situation: Situation, toolset: PromptToolset, room: Room, left: int
) -> tuple[list[str], list[str]]:
    """The sections in the paper's order, with space in the paper's cascade, and what was cut."""
    texts = _section_texts(situation.turns, toolset, room)
    budgets = room.budgets
    attempts_room = min(left, room.scaled(budgets.attempts_tokens_max))
    attempts, attempts_cut = cut_to(texts[ResultSection.ATTEMPT], attempts_room)
    left -= estimated_tokens(attempts)
    both = room.scaled(budgets.code_and_attempts_tokens_max)
    code_room = min(left, both - estimated_tokens(attempts))
    code, code_cut = cut_to(texts[ResultSection.CODE], code_room)
    documents_room = left - estimated_tokens(code)
    documents, documents_cut = cut_to(texts[ResultSection.DOCUMENT], documents_room)
    sections = [
        ("Documents", documents, documents_cut),
        ("Code and its output", code, code_cut),
        ("Earlier attempts", attempts, attempts_cut),
    ]
    return (
        [_titled(title, text) for title, text, _ in sections],
        [f"the beginning of: {title.lower()}" for title, _, cut in sections if cut],
    )


def _titled(title: str, text: str) -> str:
    return f"{title}:\n{text}" if text else ""


def _conversation(situation: Situation) -> str:
    return "\n".join(f"{message.role}: {message.content}" for message in situation.history)


def _section_texts(
    turns: Iterable[PastTurn], toolset: PromptToolset, room: Room
) -> dict[ResultSection, str]:
    entries: dict[ResultSection, list[str]] = {section: [] for section in ResultSection}
    for turn in turns:
        if malformed := parts.malformed_text(turn.action):
            entries[ResultSection.ATTEMPT].append(f"- your reply -> {malformed}")
        for observation in turn.observations:
            section = _section(observation, toolset)
            number = len(entries[section]) + 1
            entries[section].append(_entry(section, number, observation, room))
    return {section: "\n".join(lines) for section, lines in entries.items()}


def _section(observation: Observation, toolset: PromptToolset) -> ResultSection:
    # A failure is something that was tried, whatever the tool would have given.
    if observation.failure is not None:
        return ResultSection.ATTEMPT
    return toolset.sections.get(observation.call.tool_name, ResultSection.ATTEMPT)


def _entry(section: ResultSection, number: int, observation: Observation, room: Room) -> str:
    outcome = parts.outcome_text(observation)
    if section is ResultSection.DOCUMENT:
        text = keep_end(outcome, room.scaled(room.budgets.document_tokens_max))
        return f"Document {number} ({parts.call_text(observation)}): {text}"
    return f"- {parts.call_text(observation)} -> {outcome}"


def build_template(
    situation: Situation, toolset: PromptToolset, room: Room, calls_max: int
) -> Prompt:
    """The layout for models that know tools by their own chat template.

    The messages are those of the stateless layout without a word on tools: the template writes
    them, from the definitions that go along, in the form the model was trained with. Qwen3 and the
    paper's checkpoints call tools as `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.
    """
    request = parts.request_line(situation, parts.wanted(situation, MUST_ANSWER))
    callable_tools = [tool for tool in situation.tools if situation.rules.may_call(tool.name)]
    offered = replace(situation, tools=tuple(callable_tools))
    needed = estimated_tokens(SYSTEM) + needed_tokens(situation, toolset, room, request)
    shown = shown_tools(offered, room, needed, _tokens)
    functions = _functions(shown.tools, shown.description_chars_max)
    system = "\n".join(part for part in (SYSTEM, shown.note()) if part)
    prompt = laid_out(
        situation,
        toolset,
        room,
        system=system,
        request=request,
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
