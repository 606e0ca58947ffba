"""A call that waits, and its place in the list."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class ApprovalPosition:
    """Of a call among all of its tenant: episodes in the order they began."""

    episode_id: str
    turn: int
    call_index: int


@dataclass(frozen=True)
class WaitingCall:
    """A request for approval that nobody has decided. Blobs are serialized messages."""

    place: ApprovalPosition
    started_by: str
    request: bytes
    toolset: bytes
    create_time: datetime
