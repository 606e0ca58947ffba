from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class ApprovalPosition:
    """A call's position in a tenant's list: episodes in the order they began."""

    episode_id: str
    turn: int
    call_index: int


@dataclass(frozen=True)
class WaitingCall:
    """An undecided request for approval. Blobs are serialized messages."""

    place: ApprovalPosition
    started_by: str
    # Of who started it: they name the creators of its key.
    groups: frozenset[str]
    request: bytes
    toolset: bytes
    policy_name: str
    # Its beginning.
    task: str
    create_time: datetime
