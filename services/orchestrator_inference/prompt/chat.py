"""A message history, for environments: what the model wrote, and what came of it."""

from orchestrator_inference.models import Message, PastTurn, Situation
from orchestrator_inference.prompt import parts
from orchestrator_inference.prompt.budgets import Room, estimated_tokens, keep_end
from orchestrator_inference.prompt.toolset import Toolset


def build_chat(situation: Situation, toolset: Toolset, room: Room, calls_max: int) -> list[Message]:
    """System, conversation, task, then a reply and its observations per turn.

    When it does not fit, the oldest turns are left out; the newest keeps its end.
    """
    opening = [
        Message("system", parts.system_line(toolset, calls_max)),
        *situation.history,
        Message("user", parts.problem(situation)),
    ]
    closing = "\n".join(filter(None, (parts.preference_line(situation), _wanted(situation))))
    fixed = sum(estimated_tokens(message.content) for message in opening)
    left = max(0, room.prompt_tokens - fixed - estimated_tokens(closing))
    messages = opening + _newest_turns(situation.turns, left)
    if closing:
        messages[-1] = Message("user", f"{messages[-1].content}\n\n{closing}")
    return messages


def _wanted(situation: Situation) -> str:
    """Said only where not just anything may be done: the system line has the rest."""
    rules = situation.rules
    last = rules.must_answer and situation.turns
    if last or rules.must_call or rules.answer_schema:
        return parts.wanted(situation, parts.MUST_ANSWER)
    return ""


def _newest_turns(turns: tuple[PastTurn, ...], tokens: int) -> list[Message]:
    kept: list[Message] = []
    for turn in reversed(turns):
        reply, observed = _turn(turn)
        cost = estimated_tokens(reply) + estimated_tokens(observed)
        if cost > tokens and kept:
            break
        observed = keep_end(observed, tokens - estimated_tokens(reply)) or "(left out)"
        kept = [Message("assistant", reply), Message("user", observed), *kept]
        tokens -= cost
    return kept


def _turn(turn: PastTurn) -> tuple[str, str]:
    lines = [
        f"{parts.call_text(observation)} -> {parts.outcome_text(observation)}"
        for observation in turn.observations
    ]
    observed = parts.malformed_text(turn.action) or "\n".join(lines)
    return turn.completion_text or "(empty reply)", observed or "(nothing observed)"
