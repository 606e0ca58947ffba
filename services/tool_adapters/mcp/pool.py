import asyncio
from collections import Counter
from collections.abc import Iterable

from podium_kit.failures import FailureKind
from tool_adapters.adapter import CallFailed
from tool_adapters.mcp.servers import McpServers, ServerOwner
from tool_adapters.mcp.session import McpSession
from tool_adapters.models import McpHttp, McpStdio

# Tenant, episode, and the server with whose rights it runs.
Key = tuple[str, str, str]


class McpPool:
    """Opens sessions when they are first needed; closes them with the episode or when idle.

    When all are open, the tenant that has the most gives one to a tenant that has fewer.
    """

    def __init__(self, servers: McpServers, *, sessions_max: int, idle_timeout_s: float) -> None:
        self._servers = servers
        self._sessions_max = sessions_max
        self._idle_timeout_s = idle_timeout_s
        self._sessions: dict[Key, McpSession] = {}

    async def session(
        self, owner: ServerOwner, episode_id: str, server: McpStdio | McpHttp
    ) -> McpSession:
        """The episode's session with a server. Raises CallFailed when there are too many."""
        key = (owner.tenant, episode_id, f"{owner.shared} {server}")
        if key not in self._sessions:
            self._servers.require_defined(server)
        while key not in self._sessions:
            if len(self._sessions) < self._sessions_max:
                self._sessions[key] = McpSession(self._servers.opened(server, owner))
            else:
                await self._close([self._dispensable(owner.tenant)])
        return self._sessions[key]

    async def drop(self, session: McpSession) -> None:
        """Closes a session that is of no use any more; the next call opens a new one."""
        await self._close(key for key, kept in self._sessions.items() if kept is session)

    async def close_episode(self, tenant: str, episode_id: str) -> None:
        await self._close(key for key in self._sessions if key[:2] == (tenant, episode_id))

    async def close_idle(self) -> None:
        limit_s = self._idle_timeout_s
        await self._close(key for key, kept in self._sessions.items() if kept.idle_s > limit_s)

    async def close(self) -> None:
        await self._close(self._sessions)

    def _dispensable(self, tenant: str) -> Key:
        """The longest idle session of the tenant that has the most. Raises CallFailed when no
        tenant has two more than the one that asks, or all of its sessions are in use."""
        counts = Counter(key[0] for key in self._sessions)
        fullest, most = counts.most_common(1)[0]
        idle = [
            (session.idle_s, key)
            for key, session in self._sessions.items()
            if key[0] == fullest and not session.in_use
        ]
        if most < counts[tenant] + 2 or not idle:
            message = f"{self._sessions_max} sessions with MCP servers are open already"
            raise CallFailed(FailureKind.UNAVAILABLE, message, retryable=True, unsent=True)
        return max(idle)[1]

    async def _close(self, keys: Iterable[Key]) -> None:
        closing = [self._sessions.pop(key) for key in list(keys)]
        await asyncio.gather(*(session.close() for session in closing))
