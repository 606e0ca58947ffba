import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic import TypeAdapter, ValidationError

from gateway.errors import NothingAllowed, UnsupportedParameter
from gateway.models import KeptRequest
from gateway.responses.clients import McpTools
from gateway.responses.mcp_tools import McpTool, NamedServer, RegisteredTool

# The episode's label that keeps what its request called its servers: nothing else is kept of it.
LABEL = "mcp_servers"
LABEL_CHARACTERS_MAX = 256
URL_DIGEST_BY_LABEL = TypeAdapter(dict[str, str])


@dataclass(frozen=True)
class RegisteredMcpTools:
    tools: McpTools

    async def named(self, wanted: Sequence[McpTool], policy: str) -> tuple[NamedServer, ...]:
        """Returns the servers with the tools that the policy allows.

        Raises UnknownMcpServer, UnsupportedParameter, NothingAllowed.
        """
        if not wanted:
            return ()
        if len({each.server_label for each in wanted}) < len(wanted):
            raise UnsupportedParameter("tools", "two MCP servers have one server_label; name each")
        registered = await self.tools.registered()
        servers = [each.server(registered) for each in wanted]
        allowed = await self.tools.allowed(policy)
        found = tuple(_kept(server, allowed) for server in servers)
        if empty := [server.label for server in found if not server.tools]:
            raise NothingAllowed(empty[0])
        return found

    async def kept(self, request: KeptRequest) -> tuple[NamedServer, ...]:
        """Returns the servers that `label_of` recorded, without those unregistered since."""
        try:
            digests = URL_DIGEST_BY_LABEL.validate_json(request.label)
        except ValidationError:
            # None, or a caller's own label of that name.
            return ()
        found: dict[str, list[RegisteredTool]] = {}
        for tool in await self.tools.registered():
            for name, digest in digests.items():
                if (_digest(tool.url) == digest) if digest else (tool.server == name):
                    found.setdefault(name, []).append(tool)
        named = frozenset(request.tool_names)
        return tuple(_kept(NamedServer(name, tuple(tools)), named) for name, tools in found.items())


def label_of(wanted: Sequence[McpTool]) -> dict[str, str]:
    """Returns the label of an episode that records them; a URL may hold a secret, labels are shown.

    Raises UnsupportedParameter.
    """
    if not wanted:
        return {}
    text = json.dumps({each.server_label: _digest(each.server_url or "") for each in wanted})
    if len(text) > LABEL_CHARACTERS_MAX:
        raise UnsupportedParameter(
            "tools", f"labels of MCP servers have over {LABEL_CHARACTERS_MAX} characters together"
        )
    return {LABEL: text}


def _digest(url: str) -> str:
    url = url.rstrip("/")
    return hashlib.sha256(url.encode()).hexdigest()[:16] if url else ""


def _kept(server: NamedServer, names: frozenset[str]) -> NamedServer:
    return replace(server, tools=tuple(tool for tool in server.tools if tool.name in names))
