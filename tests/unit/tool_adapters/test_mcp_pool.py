"""Sessions with MCP servers: no tenant keeps them all from the others."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import pytest_asyncio
from mcp import Client

from podium_kit.failures import FailureKind
from tool_adapters.adapter import CallFailed
from tool_adapters.mcp.pool import McpPool
from tool_adapters.mcp.servers import McpServers, ServerOwner
from tool_adapters.mcp.session import McpSession
from tool_adapters.models import McpHttp, McpStdio

SERVER = McpHttp("https://mcp.example.com/mcp")
SESSIONS_MAX = 4


class Servers:
    """Opens clients that no one uses, and knows whose are open."""

    def __init__(self) -> None:
        self.open: list[str] = []

    def require_defined(self, server: McpStdio | McpHttp) -> None:
        """All are."""

    @asynccontextmanager
    async def opened(self, server: McpStdio | McpHttp, owner: ServerOwner) -> AsyncIterator[Client]:
        self.open.append(owner.tenant)
        yield cast("Client", object())
        self.open.remove(owner.tenant)


@pytest.fixture
def servers() -> Servers:
    return Servers()


@pytest_asyncio.fixture
async def pool(servers: Servers) -> AsyncIterator[McpPool]:
    known: Any = servers
    pool = McpPool(cast("McpServers", known), sessions_max=SESSIONS_MAX, idle_timeout_s=900)
    yield pool
    await pool.close()


async def used(pool: McpPool, tenant: str, episode_id: str) -> McpSession:
    """An episode's session, after a call."""
    session = await pool.session(ServerOwner(tenant, shared=False), episode_id, SERVER)
    async with session.borrowed():
        return session


async def test_who_has_the_most_gives_its_longest_idle_session_to_who_has_fewer(
    pool: McpPool, servers: Servers
) -> None:
    kept = [await used(pool, "busy", str(number)) for number in range(SESSIONS_MAX)]
    assert await used(pool, "busy", "0") is kept[0]
    first = await used(pool, "quiet", "a")
    second = await used(pool, "quiet", "b")
    assert sorted(servers.open) == ["busy", "busy", "quiet", "quiet"]
    # The first was used last but one, so the second and third went.
    assert await used(pool, "busy", "0") is kept[0]
    assert await used(pool, "busy", "3") is kept[3]
    assert await used(pool, "quiet", "a") is first
    assert await used(pool, "quiet", "b") is second
    for tenant in ("busy", "quiet"):
        with pytest.raises(CallFailed, match="4 sessions with MCP servers are open") as rejected:
            await used(pool, tenant, "one more")
        assert rejected.value.failure.kind is FailureKind.UNAVAILABLE
        assert (rejected.value.failure.retryable, rejected.value.unsent) == (True, True)


async def test_a_session_that_a_call_uses_is_not_taken(pool: McpPool, servers: Servers) -> None:
    owner = ServerOwner("busy", shared=False)
    sessions = [await pool.session(owner, str(n), SERVER) for n in range(SESSIONS_MAX)]
    async with sessions[0].borrowed(), sessions[1].borrowed():
        async with sessions[2].borrowed(), sessions[3].borrowed():
            with pytest.raises(CallFailed):
                await used(pool, "quiet", "a")
        await used(pool, "quiet", "a")
    assert sorted(servers.open) == ["busy", "busy", "busy", "quiet"]
