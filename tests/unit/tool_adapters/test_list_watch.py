"""A followed server says when its list is read again, but not how often."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types
import pytest
from mcp.client.subscriptions import ListenNotSupportedError

from tool_adapters.following import watching
from tool_adapters.following.watching import ListWatch
from tool_adapters.mcp.discovery import Discovery
from tool_adapters.mcp.servers import ServerOwner
from tool_adapters.models import McpHttp


class Restless:
    """A server that announces another list with each, and its client."""

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
