import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

from podium_kit.failures import FailureKind
from tool_adapters.adapter import CallFailed
from tool_adapters.mcp.servers import McpServers, ServerOwner
from tool_adapters.models import McpHttp, McpStdio
from tool_adapters.used_secrets import UsedSecrets, noting_secrets, used_secrets

if TYPE_CHECKING:
    from mcp import Client

log = logging.getLogger(__name__)

# The SDK needs up to 6 s to end a process that does not want to.
CLOSE_TIMEOUT_S = 10.0


class McpSession:
    """One session with a server, kept open by a task of its own.

    The SDK's client must be closed by the task that opened it, but a session outlives the request
    that opened it; so a task holds it, and requests borrow it.
    """

    def __init__(self, opening: "AbstractAsyncContextManager[Client]") -> None:
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self._borrowers = 0
        self._last_used = time.monotonic()
        # The server knows them, whichever call it answers.
        self._used = UsedSecrets()
        self._task = asyncio.create_task(self._hold(opening))

    @property
    def in_use(self) -> bool:
        return self._borrowers > 0

    @property
    def idle_s(self) -> float:
        """Seconds since the last call ended; 0 while one runs."""
        return 0.0 if self._borrowers else time.monotonic() - self._last_used

    @asynccontextmanager
    async def borrowed(self) -> "AsyncIterator[Client]":
        """The client for one call. Raises what opening it raised."""
        self._borrowers += 1
        try:
            # Shielded: a cancelled call must not take the session from the others.
            yield await asyncio.shield(self._client)
        finally:
            used_secrets().update(self._used)
            self._borrowers -= 1
            self._last_used = time.monotonic()

    async def close(self) -> None:
        self._closing.set()
        if not self._client.done():
            self._task.cancel()
        done, _ = await asyncio.wait({self._task}, timeout=CLOSE_TIMEOUT_S)
        if not done:
            log.warning("an MCP session did not close within %g s", CLOSE_TIMEOUT_S)
            self._task.cancel()

    async def _hold(self, opening: "AbstractAsyncContextManager[Client]") -> None:
        try:
            with noting_secrets(self._used):
                async with opening as client:
                    self._client.set_result(client)
                    await self._closing.wait()
        except asyncio.CancelledError:
            self._client.cancel()
            raise
        except Exception as error:  # noqa: BLE001 borrowers get it, if any are left
            if self._client.done():
                log.info("an MCP session ended with %s", type(error).__name__)
            else:
                self._client.set_exception(error)
                # Marks it retrieved: a cancelled borrower would leave asyncio a warning.
                self._client.exception()


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
