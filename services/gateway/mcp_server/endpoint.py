"""The protocol: streamable HTTP at /v1/mcp, without sessions, so any replica serves any request."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from gateway.chat.starting import EpisodeStarter
from gateway.mcp_server.run_task import DEFINITION, NAME, run_task

PATH = "/v1/mcp"
INSTRUCTIONS = "Give whole tasks to run_task; it has tools and models of its own."
Context = ServerRequestContext[Any, Any]


class McpEndpoint:
    """An ASGI application; it serves requests inside of `running`."""

    def __init__(self, starter: EpisodeStarter) -> None:
        self._starter = starter
        server: Server[Any] = Server(
            "podium",
            title="Podium",
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )
        self._manager = StreamableHTTPSessionManager(
            server,
            stateless=True,
            # A key is asked for before; a page that rebinds a name has none.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._manager.handle_request(scope, receive, send)

    def route(self) -> Route:
        return Route(PATH, self, methods=["POST"])

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """In a task of its own: the library's task group is left by the task that entered it."""
        ready, stop = asyncio.Event(), asyncio.Event()

        async def run() -> None:
            async with self._manager.run():
                ready.set()
                await stop.wait()

        async with asyncio.TaskGroup() as group:
            group.create_task(run())
            await ready.wait()
            try:
                yield
            finally:
                stop.set()

    async def _list_tools(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[DEFINITION])

    async def _call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        if params.name != NAME:
            message = f"there is no tool {params.name[:100]}; the only one is {NAME}"
            raise MCPError(types.INVALID_PARAMS, message)
        token = (context.meta or {}).get("progress_token")
        steps = count(1)

        async def tell(line: str) -> None:
            if token is not None:
                await context.session.send_progress_notification(
                    token, next(steps), message=line, related_request_id=str(context.request_id)
                )

        return await run_task(self._starter, dict(params.arguments or {}), tell)
