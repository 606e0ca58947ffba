import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import httpcore2
import mcp_types
import pytest
import pytest_asyncio
from mcp import Client
from mcp.client.subscriptions import ListenNotSupportedError

from podium_kit.failures import FailureKind
from tool_adapters.adapter import CallFailed
from tool_adapters.following import watching
from tool_adapters.following.watching import ListWatch
from tool_adapters.host_names import HostNames
from tool_adapters.mcp.discovery import Discovery
from tool_adapters.mcp.guard import CONNECTIONS_MAX, mcp_http_client
from tool_adapters.mcp.pool import McpPool
from tool_adapters.mcp.servers import McpServers, ServerOwner
from tool_adapters.mcp.session import McpSession
from tool_adapters.models import McpHttp, McpStdio

SERVER = McpHttp("https://mcp.example.com/mcp")
SESSIONS_MAX = 4


class Servers:
    def __init__(self) -> None:
        self.open: list[str] = []

    def require_defined(self, server: McpStdio | McpHttp) -> None: ...

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


@pytest.mark.parametrize("trusted", [True, False])
async def test_many_requests_connect_at_once(
    monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    connecting, all_connect = 0, asyncio.Event()

    async def connect_tcp(*_: Any, **__: Any) -> httpcore2.AsyncNetworkStream:
        nonlocal connecting
        connecting += 1
        if connecting == CONNECTIONS_MAX:
            all_connect.set()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", connect_tcp)
    async with mcp_http_client(HostNames(), "acme", {}, trusted=trusted) as client:
        requests = [
            asyncio.create_task(client.post("http://1.1.1.1/mcp")) for _ in range(CONNECTIONS_MAX)
        ]
        # A request that finds no place in the pool ends before this.
        done, waiting = await asyncio.wait(
            [*requests, reached := asyncio.create_task(all_connect.wait())],
            return_when=asyncio.FIRST_COMPLETED,
        )
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    assert done == {reached}


class Restless:
    server_info = None

    def __init__(self) -> None:
        self.hear: Any = None

    @asynccontextmanager
    async def opened(self, _server: McpHttp, _owner: ServerOwner, hear: Any) -> AsyncIterator[Any]:
        self.hear = hear
        yield self

    async def list_tools(self, cursor: str | None) -> mcp_types.ListToolsResult:
        await self.hear(mcp_types.ToolListChangedNotification())
        return mcp_types.ListToolsResult(tools=[])

    def listen(self, **_: Any) -> Any:
        raise ListenNotSupportedError("2025-11-25")


@pytest.mark.parametrize(("pause_s", "most"), [(3600.0, 1), (0.0, 1_000)])
async def test_a_server_that_always_has_changed_is_asked_after_a_pause(
    monkeypatch: pytest.MonkeyPatch, pause_s: float, most: int
) -> None:
    listed = 0

    async def each(_: Discovery) -> None:
        nonlocal listed
        listed += 1

    monkeypatch.setattr(watching, "PAUSE_S", pause_s)
    servers: Any = Restless()
    owner = ServerOwner("acme", shared=False)
    watch = ListWatch(servers, relist_s=3600.0)
    running = asyncio.create_task(watch.run(McpHttp("https://mcp.example.com/mcp"), owner, each))
    for _ in range(200):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait({running})
    # Without a pause it is asked as often as it wants.
    assert 1 <= listed <= most
    assert (listed == 1) == (pause_s > 0)
