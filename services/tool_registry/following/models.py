"""Followed tools: those of a server, as the registry knows them."""

from dataclasses import dataclass

from tool_registry.models import ToolSpec


@dataclass(frozen=True)
class FollowedTools:
    """Tools of one server. `common` is what their specs share, serialized."""

    server_id: str
    owner: str
    name_prefix: str
    common: bytes


@dataclass(frozen=True)
class ListedTool:
    """A tool a server has, and what its spec shares with the server's others."""

    spec: ToolSpec
    common: bytes
