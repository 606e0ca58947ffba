from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator_inference.models import Message, PastTurn, Situation
from orchestrator_inference.prompt import parts
from orchestrator_inference.prompt.budgets import Room, estimated_tokens
from orchestrator_inference.prompt.fitting import (
    CUT,
    LISTING_SHARE_MIN,
    SEPARATORS_TOKENS,
    Prompt,
    cut_to,
    shown_tools,
)
from orchestrator_inference.prompt.toolset import PromptToolset


def build_chat(situation: Situation, toolset: PromptToolset, room: Room, calls_max: int) -> Prompt:
    """System, conversation, task, then a reply and its observations per turn.

    When it does not fit, the oldest turns are left out; the newest keeps its end. So does a
    conversation that leaves no room beside itself: a quarter is its then.
    """
    problem = parts.problem(situation)
    closing = "\n".join(filter(None, (parts.preference_line(situation), _wanted(situation))))
    fixed = estimated_tokens(problem) + estimated_tokens(closing)
    bare = estimated_tokens(parts.system_line(parts.NO_LINES, calls_max)) + SEPARATORS_TOKENS
    whole = toolset.listing_tokens(situation.tools, room.budgets.tool_description_chars_max)
    listing = min(whole, room.prompt_tokens // LISTING_SHARE_MIN)
    left = room.prompt_tokens - fixed - bare
    history, history_cut = list(situation.history), False
    if _tokens(history) > left - listing:
        history, history_cut = _newest_messages(history, left // 4)
    fixed += _tokens(history)
    results = _newest_turns(situation.turns, room.prompt_tokens - fixed - bare)
    needed = fixed + bare + _tokens(results.messages)
    shown = shown_tools(situation, room, needed, toolset.listing_tokens)
    system = parts.system_line(toolset.listing_of(shown), calls_max)
    fixed += estimated_tokens(system) + SEPARATORS_TOKENS
    left = max(0, room.prompt_tokens - fixed)
    newest = _newest_turns(situation.turns, left)
    if newest.dropped:
        problem += f"\n\n({newest.dropped} earlier turns are left out, for want of room)"
    messages = [Message("system", system), *history, Message("user", problem)]
    messages += newest.messages
    if closing:
        messages[-1] = Message("user", f"{messages[-1].content}\n\n{closing}")
    conversation = ["the beginning of the conversation"] if history_cut else []
    return Prompt(messages, (*shown.left_out(), *conversation, *newest.left_out()))


@dataclass(frozen=True)
class NewestTurns:
    """The turns that fit, the number of older ones, and whether the last one was cut."""

    messages: list[Message]
    dropped: int
    cut: bool

    def left_out(self) -> list[str]:
        dropped = [f"{self.dropped} earlier turns"] if self.dropped else []
        return dropped + (["the beginning of what a turn gave"] if self.cut else [])


def _wanted(situation: Situation) -> str:
    rules = situation.rules
    last = rules.must_answer and situation.turns
    if last or rules.must_call or rules.answer_schema:
        return parts.wanted(situation, parts.MUST_ANSWER)
    return ""


def _tokens(messages: Sequence[Message]) -> int:
    return sum(estimated_tokens(message.content) for message in messages)


def _newest_messages(messages: Sequence[Message], tokens: int) -> tuple[list[Message], bool]:
    """Returns the messages that fit, the end of one that does not, and whether there was one."""
    kept: list[Message] = []
    for message in reversed(messages):
        content, cut = cut_to(message.content, tokens)
        if cut:
            return [Message(message.role, content or CUT), *kept], True
        kept.insert(0, message)
        tokens -= estimated_tokens(content)
    return kept, False


def _newest_turns(turns: tuple[PastTurn, ...], tokens: int) -> NewestTurns:
    kept: list[Message] = []
    count, was_cut = 0, False
    for turn in reversed(turns):
        reply, observed = _turn(turn)
        cost = estimated_tokens(reply) + estimated_tokens(observed)
        if cost > tokens and kept:
            break
        observed, cut = cut_to(observed, tokens - estimated_tokens(reply))
        was_cut = was_cut or cut
        kept = [Message("assistant", reply), Message("user", observed or CUT), *kept]
        tokens -= cost
        count += 1
    return NewestTurns(kept, len(turns) - count, was_cut)


def _turn(turn: PastTurn) -> tuple[str, str]:
    lines = [
        f"{parts.call_text(observation)} -> {parts.outcome_text(observation)}"
        for observation in turn.observations
    ]
    observed = parts.malformed_text(turn.action) or "\n".join(lines)
    return turn.completion_text or "(empty reply)", observed or "(nothing observed)"
