"""Asks an MCP server which tools it has, in a session that lasts only for this."""

import asyncio
from dataclasses import dataclass

import mcp_types
from mcp import Client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from podium_kit.rpc.identity import Scope, current_identity
from tool_adapters.adapter import CallFailed
from tool_adapters.errors import DiscoveryFailed
from tool_adapters.mcp.servers import McpServers, ServerOwner
from tool_adapters.models import JsonObject, McpHttp, McpStdio, SideEffect
from tool_adapters.used_secrets import noting_secrets

TIMEOUT_S = 30.0
# Of a list of tools: whatever is larger no orchestrator can choose from, and memory ends.
PAGES_MAX, TOOLS_MAX, BYTES_MAX = 100, 2_000, 8 * 1024 * 1024


@dataclass(frozen=True)
class ListedTool:
    """A tool in a server's list."""

    name: str
    description: str
    parameters_schema: JsonObject
    result_schema: JsonObject | None
    side_effect: SideEffect


@dataclass(frozen=True)
class Discovery:
    """A server's tools, and the name and version it gives itself."""

    server_name: str
    tools: tuple[ListedTool, ...]


class McpDiscovery:
    """Lists tools for the current identity."""

    def __init__(self, servers: McpServers) -> None:
        self._servers = servers

    async def discover(self, server: McpStdio | McpHttp) -> Discovery:
        """Every tool of the server. Raises DiscoveryFailed and McpServerUnusable."""
        caller = current_identity()
        owner = ServerOwner(caller.tenant, shared=caller.may(Scope.PLATFORM_ADMIN))
        with noting_secrets() as used:
            try:
                async with (
                    asyncio.timeout(TIMEOUT_S),
                    self._servers.opened(server, owner) as client,
                ):
                    return await discovery_of(client)
            except CallFailed as error:
                raise DiscoveryFailed(used.redact(error.failure.message)) from error
            except MCPError as error:
                rejected = used.redact(error.message)
                raise DiscoveryFailed(f"the MCP server rejected: {rejected}") from error
            except TimeoutError as error:
                raise DiscoveryFailed(
                    f"the MCP server did not answer in {TIMEOUT_S:g} s"
                ) from error


async def discovery_of(client: Client) -> Discovery:
    """The server's tools, from every page of its list.

    Raises DiscoveryFailed for a list that is too long, or none of the protocol's.
    """
    tools: list[mcp_types.Tool] = []
    size_bytes, cursor = 0, None
    for _ in range(PAGES_MAX):
        page = await _page(client, cursor)
        tools += page.tools
        size_bytes += sum(len(tool.model_dump_json()) for tool in page.tools)
        if len(tools) > TOOLS_MAX or size_bytes > BYTES_MAX:
            raise DiscoveryFailed(
                f"the MCP server lists more than {TOOLS_MAX} tools or {BYTES_MAX >> 20} MiB"
            )
        cursor = page.next_cursor
        if not cursor:
            break
    else:
        raise DiscoveryFailed(f"the MCP server's list of tools has more than {PAGES_MAX} pages")
    info = client.server_info
    name = f"{info.name} {info.version}".strip() if info else ""
    return Discovery(name, tuple(_listed(tool) for tool in tools))


async def _page(client: Client, cursor: str | None) -> mcp_types.ListToolsResult:
    try:
        return await client.list_tools(cursor=cursor)
    except ValidationError as error:
        # Without what was found there: it may repeat a credential.
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise DiscoveryFailed(
            f"the MCP server's list of tools is none of the protocol's: {place}: {first['msg']}"
        ) from error


def _listed(tool: mcp_types.Tool) -> ListedTool:
    return ListedTool(
        name=tool.name,
        description=(tool.description or tool.title or "").strip(),
        # Servers may leave the type out; the registry wants it said.
        parameters_schema={"type": "object"} | tool.input_schema,
        result_schema=tool.output_schema,
        side_effect=_side_effect(tool.annotations),
    )


def _side_effect(hints: mcp_types.ToolAnnotations | None) -> SideEffect:
    """What the server's hints say; without any a tool counts as effectful."""
    if hints is not None and hints.read_only_hint:
        return SideEffect.PURE
    if hints is not None and hints.idempotent_hint:
        return SideEffect.IDEMPOTENT
    return SideEffect.EFFECTFUL
