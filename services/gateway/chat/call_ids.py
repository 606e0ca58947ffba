"""Ids of calls that a client is to run: they say which call of which turn of which episode.

So the request that brings results finds its episode without anything kept here. Anyone who makes an
id up names an episode, and the episode service gives no one another tenant's.
"""

import base64
import struct
from binascii import Error as BadBase64
from dataclasses import dataclass
from uuid import UUID

PREFIX = "call_"
# The episode's UUID, its turn, and the call's position in it.
LAYOUT = struct.Struct(">16sHH")
ENCODED_CHARACTERS = 27


@dataclass(frozen=True)
class CallId:
    episode_id: str
    turn: int
    index: int

    def __str__(self) -> str:
        packed = LAYOUT.pack(UUID(self.episode_id).bytes, self.turn, self.index)
        return PREFIX + base64.urlsafe_b64encode(packed).decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> "CallId | None":
        """The call; None for an id that is not of Podium's making."""
        encoded = text.removeprefix(PREFIX)
        if encoded == text or len(encoded) != ENCODED_CHARACTERS or not encoded.isascii():
            return None
        try:
            packed = base64.b64decode(encoded + "=", altchars=b"-_", validate=True)
        except BadBase64:
            return None
        episode, turn, index = LAYOUT.unpack(packed)
        return cls(str(UUID(bytes=episode)), turn, index)
