"""Ids of responses: which part of which episode one is.

An episode that waits for its client is two responses: to its calls, and from their results on.
"""

from dataclasses import dataclass
from uuid import UUID

from gateway.errors import ResponseNotFound

PREFIX = "resp_"
EPISODE_DIGITS, TURN_DIGITS = 32, 4


@dataclass(frozen=True)
class ResponseId:
    """An episode, and the turn whose calls were answered before; 0 for its beginning."""

    episode_id: str
    answered_turn: int

    def __str__(self) -> str:
        return f"{PREFIX}{UUID(self.episode_id).hex}{self.answered_turn:04x}"

    @classmethod
    def read(cls, text: str) -> "ResponseId":
        digits = text.removeprefix(PREFIX)
        if digits == text or len(digits) != EPISODE_DIGITS + TURN_DIGITS:
            raise ResponseNotFound(text)
        try:
            episode = UUID(digits[:EPISODE_DIGITS])
            return cls(str(episode), int(digits[EPISODE_DIGITS:], 16))
        except ValueError as error:
            raise ResponseNotFound(text) from error
