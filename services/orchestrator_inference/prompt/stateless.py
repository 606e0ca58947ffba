"""The paper's layout for questions, rebuilt every turn.

One short system line with the tools; one user message with the problem, then
documents, then code with outputs, then earlier attempts with their errors, then the
instruction to pick. No chat history: what the model reads is what is known so far.
"""

from collections.abc import Iterable

from orchestrator_inference.models import (
    Message,
    Observation,
    PastTurn,
    ResultSection,
    Situation,
)
from orchestrator_inference.prompt import parts
from orchestrator_inference.prompt.budgets import Room, estimated_tokens, keep_end
from orchestrator_inference.prompt.toolset import Toolset


def build_stateless(
    situation: Situation, toolset: Toolset, room: Room, calls_max: int
) -> list[Message]:
    """The two messages of a turn, within the room."""
    wanted = parts.wanted(situation, parts.MUST_ANSWER)
    system = parts.system_line(toolset, calls_max)
    return laid_out(situation, toolset, room, system=system, wanted=wanted)


def laid_out(
    situation: Situation,
    toolset: Toolset,
    room: Room,
    *,
    system: str,
    wanted: str,
    taken: int = 0,
) -> list[Message]:
    """The layout under a system line, with what is wanted; other parts take so many tokens."""
    request = parts.request_line(situation, wanted)
    head = [f"Problem: {parts.problem(situation)}"]
    fixed = taken + sum(estimated_tokens(text) for text in (system, request, *head))
    left = max(0, room.prompt_tokens - fixed)
    conversation = keep_end(_conversation(situation), left // 4)
    left -= estimated_tokens(conversation)
    known = _known(situation, toolset, room, left)
    blocks = [_titled("Conversation so far", conversation), *head, *known, request]
    return [
        Message("system", system),
        Message("user", "\n\n".join(block for block in blocks if block)),
    ]


def _known(situation: Situation, toolset: Toolset, room: Room, left: int) -> list[str]:
    """The sections in the paper's order, given room in the paper's cascade."""
    texts = _section_texts(situation.turns, toolset, room)
    budgets = room.budgets
    attempts_room = min(left, room.scaled(budgets.attempts_tokens_max))
    attempts = keep_end(texts[ResultSection.ATTEMPT], attempts_room)
    left -= estimated_tokens(attempts)
    both = room.scaled(budgets.code_and_attempts_tokens_max)
    code_room = min(left, both - estimated_tokens(attempts))
    code = keep_end(texts[ResultSection.CODE], code_room)
    documents = keep_end(texts[ResultSection.DOCUMENT], left - estimated_tokens(code))
    return [
        _titled("Documents", documents),
        _titled("Code and its output", code),
        _titled("Earlier attempts", attempts),
    ]


def _titled(title: str, text: str) -> str:
    return f"{title}:\n{text}" if text else ""


def _conversation(situation: Situation) -> str:
    return "\n".join(f"{message.role}: {message.content}" for message in situation.history)


def _section_texts(
    turns: Iterable[PastTurn], toolset: Toolset, room: Room
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


def _section(observation: Observation, toolset: Toolset) -> ResultSection:
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
