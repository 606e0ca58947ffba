import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from podium_kit.failures import FailureKind
from tool_adapters.adapter import CallFailed
from tool_adapters.mcp.servers import McpServers, ServerOwner
from tool_adapters.models import McpHttp, McpStdio

if TYPE_CHECKING:
    from mcp import Client

    from tool_adapters.mcp.discovery import Discovery

LIST_TIMEOUT_S = 30.0
# After each list, however often another one is announced: all of them are compared and stored.
PAUSE_S = 1.0

EachListing = Callable[["Discovery"], Awaitable[None]]


class ListWatch:
    """Watches lists in sessions of its own; a list is also asked for every `relist_s` seconds,
    for servers that change without saying so, and to notice those that are gone."""

    def __init__(self, servers: McpServers, relist_s: float) -> None:
        self._servers = servers
        self._relist_s = relist_s

    async def run(
        self, transport: McpStdio | McpHttp, owner: ServerOwner, each: EachListing
    ) -> None:
        """Calls `each` with the first list and every later one, until the server ends it.

        Raises CallFailed, and what `each` raises.
        """
        announced = _Announcements()
        async with self._servers.opened(transport, owner, announced.receive) as client:
            listening = asyncio.create_task(announced.listen(client))
            try:
                while not announced.over:
                    announced.changed.clear()
                    await each(await _list(client, owner.tenant))
                    await asyncio.sleep(PAUSE_S)
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self._relist_s):
                            await announced.changed.wait()
            finally:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)


async def _list(client: "Client", tenant: str) -> "Discovery":
    from mcp.shared.exceptions import MCPError

    from tool_adapters.mcp.discovery import discovery_of

    try:
        async with asyncio.timeout(LIST_TIMEOUT_S):
            return await discovery_of(client, tenant)
    except TimeoutError as error:
        message = f"the MCP server did not list its tools in {LIST_TIMEOUT_S:g} s"
        raise CallFailed(FailureKind.TIMEOUT, message, retryable=True) from error
    except MCPError as error:
        message = f"the MCP server does not list its tools: {error.message}"
        raise CallFailed(FailureKind.TOOL_ERROR, message) from error


class _Announcements:
    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.over = False

    async def receive(self, message: object) -> None:
        """notifications/tools/list_changed, of the protocol up to 2025-11-25."""
        from mcp_types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self.changed.set()

    async def listen(self, client: "Client") -> None:
        """subscriptions/listen, of the protocol from 2026-07-28 on; others have no such method."""
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
        from mcp.shared.exceptions import MCPError

        with suppress(ListenNotSupportedError, MCPError):
            with suppress(SubscriptionLost):
                async with client.listen(tools_list_changed=True) as subscription:
                    async for _ in subscription:
                        self.changed.set()
            self.over = True
            self.changed.set()
