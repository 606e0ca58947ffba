"""Lengths of the parts of an action, so that max_tokens can hold it.

Bounding has a price: xgrammar up to 0.2.8 lets a string with a length bound hold
no escape, so no newline and no double quote
(https://github.com/mlc-ai/xgrammar/issues/800). Hence the levels: a code argument
needs newlines, and a capable model needs no bounds at all.
"""

from dataclasses import dataclass
from enum import IntEnum

from podium_kit.json_schemas.grammar import SchemaLimits


class Bounds(IntEnum):
    """The strings and numbers of an action that are bounded; a level includes those below."""

    THOUGHT = 0
    PROSE = 1
    CODE = 2


@dataclass(frozen=True)
class ActionLimits:
    max_tokens: int
    bounds: Bounds

    @property
    def thought_chars(self) -> int:
        """About an eighth of the completion at four characters a token."""
        return max(1, self.max_tokens // 2)

    @property
    def answer_chars(self) -> int | None:
        """About half of the completion, because rare text has two characters a token."""
        return max(1, self.max_tokens * 2) if self.bounds >= Bounds.PROSE else None

    def arguments(self, *, is_code: bool) -> SchemaLimits:
        """Limits of a tool's arguments: shorter than an answer, as there may be several."""
        bounded = self.bounds >= (Bounds.CODE if is_code else Bounds.PROSE)
        return SchemaLimits(max(1, self.max_tokens) if bounded else None)
