from dataclasses import dataclass

from tool_registry.models import ToolSpec


@dataclass(frozen=True)
class FollowedTools:
    """`common` is what the specs of the server's tools share, serialized."""

    server_id: str
    owner: str
    name_prefix: str
    common: bytes


@dataclass(frozen=True)
class ListedTool:
    spec: ToolSpec
    common: bytes
