import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from podium_kit.rpc.identity import Scope, current_identity
from tool_adapters.adapter import CallFailed
from tool_adapters.errors import McpServerUnusable
from tool_adapters.mcp.definitions import McpDefinitions
from tool_adapters.models import McpHttp, McpStdio
from tool_adapters.network_guard import NetworkGuard
from tool_adapters.secret_store import PLATFORM, SecretStore

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client.session import MessageHandlerFnT

CONNECTING = "tool_adapters.mcp.connecting"


@dataclass(frozen=True)
class ServerOwner:
    """The owner of a server: a tenant, or the platform when the tool is shared."""

    tenant: str
    shared: bool

    @property
    def secrets(self) -> str:
        return PLATFORM if self.shared else self.tenant


class McpServers:
    def __init__(
        self, secrets: SecretStore, guard: NetworkGuard, definitions: McpDefinitions
    ) -> None:
        self._secrets = secrets
        self._guard = guard
        self._definitions = definitions

    def require_defined(self, server: McpStdio | McpHttp) -> None:
        if isinstance(server, McpStdio):
            self._definitions.get(server.server)

    @asynccontextmanager
    async def opened(
        self,
        server: McpStdio | McpHttp,
        owner: ServerOwner,
        on_message: "MessageHandlerFnT | None" = None,
    ) -> "AsyncIterator[Client]":
        """A connected client. Raises CallFailed when the server does not come up, or breaks,
        and McpServerUnusable.

        `on_message` gets every message of the server that is no answer.
        """
        # The SDK takes long to import the first time; others are served meanwhile.
        await asyncio.to_thread(import_module, CONNECTING)
        from tool_adapters.mcp.connecting import connected, started

        opening = (
            started(server, owner.secrets, self._secrets, self._definitions, on_message)
            if isinstance(server, McpStdio)
            else connected(server, owner, self._secrets, self._guard, on_message)
        )
        raised: Exception | None = None
        try:
            async with opening as client:
                try:
                    yield client
                except Exception as error:
                    raised = error
                    raise
        except CallFailed:
            # What the block raised is no fault of the connection.
            if raised is not None:
                raise raised from None
            raise


class SharedServers(Protocol):
    async def shared_servers(self) -> set[str]: ...


@dataclass(frozen=True)
class ListableServers:
    servers: McpServers
    registry: SharedServers

    async def require(self, server: McpStdio | McpHttp) -> None:
        """Raises McpServerUnusable for a process that the operator did not define, or, unless an
        admin of the platform asks, of which no tool is shared."""
        if isinstance(server, McpStdio) and not current_identity().may(Scope.PLATFORM_ADMIN):
            shared = await self.registry.shared_servers()
            if server.server not in shared:
                names = ", ".join(sorted(shared)) or "none"
                raise McpServerUnusable(
                    server.server,
                    "the operator shares no tool of a server of this name; servers with shared "
                    f"tools are: {names}",
                )
        self.servers.require_defined(server)
