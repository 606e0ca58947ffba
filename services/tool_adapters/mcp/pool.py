"""Sessions by tenant, episode and server: stateful servers keep their state per episode."""

import asyncio
from collections.abc import Iterable

from podium_kit.failures import FailureKind
from tool_adapters.adapter import CallFailed
from tool_adapters.mcp.servers import McpServers, ServerOwner
from tool_adapters.mcp.session import McpSession
from tool_adapters.models import McpHttp, McpStdio

# Tenant, episode, and the server with whose rights it runs.
Key = tuple[str, str, str]


class McpPool:
    """Opens sessions when they are first needed; closes them with the episode or when idle."""

    def __init__(self, servers: McpServers, *, sessions_max: int, idle_timeout_s: float) -> None:
        self._servers = servers
        self._sessions_max = sessions_max
        self._idle_timeout_s = idle_timeout_s
        self._sessions: dict[Key, McpSession] = {}

    def session(
        self, owner: ServerOwner, episode_id: str, server: McpStdio | McpHttp
    ) -> McpSession:
        """The episode's session with a server. Raises CallFailed when there are too many."""
        key = (owner.tenant, episode_id, f"{owner.shared} {server}")
        if key not in self._sessions:
            self._servers.require_defined(server)
            if len(self._sessions) >= self._sessions_max:
                message = f"{self._sessions_max} sessions with MCP servers are open already"
                raise CallFailed(FailureKind.UNAVAILABLE, message, retryable=True, unsent=True)
            self._sessions[key] = McpSession(self._servers.opened(server, owner))
        return self._sessions[key]

    async def drop(self, session: McpSession) -> None:
        """Closes a session that is of no use any more; the next call opens a new one."""
        await self._close(key for key, kept in self._sessions.items() if kept is session)

    async def close_episode(self, tenant: str, episode_id: str) -> None:
        await self._close(key for key in self._sessions if key[:2] == (tenant, episode_id))

    async def close_idle(self) -> None:
        """Closes idle sessions; call it periodically."""
        limit_s = self._idle_timeout_s
        await self._close(key for key, kept in self._sessions.items() if kept.idle_s > limit_s)

    async def close(self) -> None:
        """Closes every session."""
        await self._close(self._sessions)

    async def _close(self, keys: Iterable[Key]) -> None:
        closing = [self._sessions.pop(key) for key in list(keys)]
        await asyncio.gather(*(session.close() for session in closing))
