from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class ProposalState(StrEnum):
    WRITING = "writing"
    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    FAILED = "failed"


@dataclass(frozen=True)
class Proposal:
    id: str
    tool_name: str
    tool_version: int
    model_alias: str
    current_description: str
    proposed_description: str
    writer_tool: str
    episode_ids: tuple[str, ...]
    succeeded_count: int
    state: ProposalState
    create_time: datetime
    created_by: str
    reviewed_by: str
