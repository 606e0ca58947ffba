from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True)
class SavedView:
    id: UUID
    subject: str
    shared: bool
    name: str
    # The search part of the list's address, without its question mark.
    query: str
    create_time: datetime
