"""The protocol: streamable HTTP at /v1/mcp, without sessions, so any replica serves any request."""

import asyncio
import contextvars
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import Receive, Scope, Send

from gateway.chat.starting import EpisodeStarter
from gateway.mcp_server.options import CallOptions, TaskOptions, options
from gateway.mcp_server.policy_tools import ToolCalls
from gateway.mcp_server.resources import TEMPLATES, TenantResources
from gateway.mcp_server.results import failed, in_its_words
from gateway.mcp_server.run_task import DEFINITION, NAME, ProgressReport, run_task
from podium_kit.rpc.errors import DomainError

INSTRUCTIONS = (
    "Give whole tasks to run_task; it has tools and models of its own. The other tools are those"
    " that your policy allows, called directly."
)
Context = ServerRequestContext[Any, Any]


class McpEndpoint:
    """An ASGI application; it serves requests inside of `running`."""

    def __init__(
        self, starter: EpisodeStarter, tools: ToolCalls, resources: TenantResources
    ) -> None:
        self._starter = starter
        self._tools = tools
        self._resources = resources
        server: Server[Any] = Server(
            "podium",
            title="Podium",
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )
        self._manager = StreamableHTTPSessionManager(
            server,
            stateless=True,
            # A key is asked for before; a page that rebinds a name has none.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._manager.handle_request(scope, receive, send)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Runs the library's task group in a task of its own, which has to enter and leave it."""
        ready, stop = asyncio.Event(), asyncio.Event()

        async def run() -> None:
            async with self._manager.run():
                ready.set()
                await stop.wait()

        # Not of the request that happens to be the first.
        serving = asyncio.create_task(run(), context=contextvars.Context())
        await ready.wait()
        try:
            yield
        finally:
            stop.set()
            await serving

    async def _list_tools(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        cursor = params.cursor if params else None
        with in_its_words():
            tools, more = await self._tools.page(cursor, but=NAME)
        own = [] if cursor else [DEFINITION]
        return types.ListToolsResult(tools=[*own, *tools], next_cursor=more)

    async def _call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Calls a tool; an error is a result for the calling model."""
        meta, arguments = context.meta, dict(params.arguments or {})
        with in_its_words():
            try:
                if params.name == NAME:
                    asked = options(TaskOptions, meta)
                    return await run_task(self._starter, arguments, asked, _progress_of(context))
                return await self._tools.call(params.name, arguments, options(CallOptions, meta))
            except DomainError as error:
                return failed(error.message)

    async def _list_resources(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        with in_its_words():
            return await self._resources.page(params.cursor if params else None)

    async def _list_templates(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=list(TEMPLATES))

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        with in_its_words():
            return await self._resources.read(params.uri)


def _progress_of(context: Context) -> ProgressReport:
    token = (context.meta or {}).get("progress_token")
    steps = count(1)

    async def report(message: str, answer_part: str = "") -> None:
        if token is None:
            return
        params = types.ProgressNotificationParams(
            progress_token=token,
            progress=next(steps),
            message=message,
            _meta={"podium": {"answer_part": answer_part}} if answer_part else None,
        )
        await context.session.send_notification(
            types.ProgressNotification(params=params), str(context.request_id)
        )

    return report
