from collections.abc import Mapping
from dataclasses import dataclass, field

from tool_adapters.mcp.servers import ServerOwner
from tool_adapters.models import McpHttp, McpStdio
from tool_adapters.secret_store import PLATFORM


@dataclass(frozen=True)
class FollowedServer:
    """`definition` is what its owner wrote, a FollowedMcpServer message; owner "" is the platform.

    `listed` are digests of the specs last sent to the registry, by tool name, and `problem` is
    why the server cannot be followed at the moment, or "".
    """

    id: str
    owner: str
    definition: bytes
    transport: McpStdio | McpHttp
    listed: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""

    @property
    def runs_as(self) -> ServerOwner:
        """The owner whose rights reach the server."""
        return ServerOwner(self.owner, shared=self.owner == PLATFORM)


@dataclass(frozen=True)
class ListedSpec:
    """A spec ready for the registry, serialized, and its SHA-256 in hexadecimal."""

    name: str
    wire: bytes
    digest: str
