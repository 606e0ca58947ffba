"""A proposed description, from its writing to its review."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class ProposalState(StrEnum):
    """The state of a proposal; see podium.registry.v1.ProposalState."""

    WRITING = "writing"
    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    FAILED = "failed"


@dataclass(frozen=True)
class Proposal:
    """A description of a tool, or of one model of it, as a suggestion."""

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
