"""The part of a prompt that is shown where not all fits: results come before the tool listing.

What is left out is marked for the model at its place, and reported to the caller.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator_inference.models import Message, PromptTool, Situation
from orchestrator_inference.prompt.budgets import Room, estimated_tokens, keep_end

# Of the room, however much there is to remember: without any tool nothing can be done.
LISTING_SHARE_MIN = 8
# Characters of a description, where whole ones do not fit.
SHORT_DESCRIPTION_CHARS = 60
CUT = "(the beginning is left out, for want of room)"
# Of the note below.
NOTE_TOKENS = 40
# Of what separates the parts of a prompt, and of rounding each.
SEPARATORS_TOKENS = 40


@dataclass(frozen=True)
class Prompt:
    """The messages, and what was left out of them, in words without any of it."""

    messages: list[Message]
    left_out: tuple[str, ...] = ()
    functions: tuple[Mapping[str, Any], ...] = ()
    """Definitions for a model's own template, as OpenAI's API has them."""


@dataclass(frozen=True)
class ShownTools:
    tools: tuple[PromptTool, ...]
    description_chars_max: int
    count: int
    """The number of all of them."""

    @property
    def hidden(self) -> int:
        return self.count - len(self.tools)

    def note(self) -> str:
        if not self.hidden:
            return ""
        found = "find_tools finds them" if self._can_find else "only these are described"
        return f"({self.hidden} more tools are left out, for want of room; {found})"

    def left_out(self) -> tuple[str, ...]:
        if not self.hidden:
            return ()
        return (f"{self.hidden} of {self.count} tools, which do not fit the model's context",)

    @property
    def _can_find(self) -> bool:
        return any(tool.name == "find_tools" for tool in self.tools)


def shown_tools(
    situation: Situation,
    room: Room,
    needed: int,
    size_of: Callable[[Sequence[PromptTool], int], int],
) -> ShownTools:
    """The tools that fit beside what else is needed, in tokens, by a measure of their listing.

    All of them with whole descriptions, else with short ones, else as many as fit: those that
    were called first, and those that must be.
    """
    tools, whole = situation.tools, room.budgets.tool_description_chars_max
    left = max(room.prompt_tokens - needed, room.prompt_tokens // LISTING_SHARE_MIN)
    for chars in (whole, min(whole, SHORT_DESCRIPTION_CHARS)):
        if size_of(tools, chars) <= left:
            return ShownTools(tools, chars, len(tools))
    short = min(whole, SHORT_DESCRIPTION_CHARS)
    kept: set[str] = set()
    taken = NOTE_TOKENS
    for tool in _by_use(situation):
        size = size_of([tool], short)
        if taken + size <= left:
            taken += size
            kept.add(tool.name)
    shown = tuple(tool for tool in tools if tool.name in kept)
    return ShownTools(shown, short, len(tools))


def cut_to(text: str, tokens_max: int) -> tuple[str, bool]:
    if estimated_tokens(text) <= tokens_max:
        return text, False
    kept = keep_end(text, tokens_max - estimated_tokens(CUT))
    return (f"{CUT} {kept}" if kept else ""), True


def _by_use(situation: Situation) -> list[PromptTool]:
    used: dict[str, Any] = dict.fromkeys(situation.rules.must_call)
    for turn in reversed(situation.turns):
        used |= dict.fromkeys(each.call.tool_name for each in turn.observations)
    first = [tool for tool in situation.tools if tool.name in used or tool.name == "find_tools"]
    return [*first, *(tool for tool in situation.tools if tool not in first)]
