"""A record that is on no topic."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class DeadLetter:
    """A record of the outbox that is not published, and why."""

    row_id: int
    record_id: str
    tenant: str
    kind: str
    group_id: str
    episode_id: str
    """Empty when no single episode made it."""
    reason: str
    size_bytes: int
    create_time: datetime
