import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import mcp_types
from mcp import Client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from podium_kit.json_schemas.errors import UnusableSchema
from podium_kit.json_schemas.loosening import loosened, loosened_object
from podium_kit.limits.concurrency import FairThread
from podium_kit.rpc.identity import Scope, current_identity
from tool_adapters.adapter import CallFailed
from tool_adapters.errors import DiscoveryFailed
from tool_adapters.mcp.messages import (
    SkippedTool,
    input_schema,
    output_schema,
    skipped_tools,
)
from tool_adapters.mcp.servers import McpServers, ServerOwner
from tool_adapters.models import JsonObject, McpHttp, McpStdio, SideEffect
from tool_adapters.used_secrets import noting_secrets

TIMEOUT_S = 30.0
DESCRIPTION_CHARACTERS_MAX = 4_000
# Of a list of tools: whatever is larger no orchestrator can choose from, and memory ends.
PAGES_MAX, TOOLS_MAX, BYTES_MAX = 100, 2_000, 8 * 1024 * 1024
SCHEMAS = FairThread()


@dataclass(frozen=True)
class ListedTool:
    """A tool in a server's list; `notices` name what of its schemas the server alone checks."""

    name: str
    description: str
    parameters_schema: JsonObject
    result_schema: JsonObject | None
    side_effect: SideEffect
    notices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Discovery:
    """A server's tools, and the name and version it gives itself.

    `skipped` are tools that cannot be called, and `notices` are about the list.
    """

    server_name: str
    tools: tuple[ListedTool, ...]
    skipped: tuple[SkippedTool, ...] = ()
    notices: tuple[str, ...] = ()


class McpDiscovery:
    def __init__(self, servers: McpServers) -> None:
        self._servers = servers

    async def discover(self, server: McpStdio | McpHttp) -> Discovery:
        caller = current_identity()
        owner = ServerOwner(caller.tenant, shared=caller.may(Scope.PLATFORM_ADMIN))
        with noting_secrets() as used:
            try:
                async with (
                    asyncio.timeout(TIMEOUT_S),
                    self._servers.opened(server, owner) as client,
                ):
                    return await discovery_of(client, owner.tenant)
            except CallFailed as error:
                raise DiscoveryFailed(used.redact(error.failure.message)) from error
            except MCPError as error:
                rejected = used.redact(error.message)
                raise DiscoveryFailed(f"the MCP server rejected: {rejected}") from error
            except TimeoutError as error:
                raise DiscoveryFailed(
                    f"the MCP server did not answer in {TIMEOUT_S:g} s"
                ) from error


async def discovery_of(client: Client, tenant: str) -> Discovery:
    """The server's tools, from every page of its list. Raises DiscoveryFailed for a list that is
    too long, or none of the protocol's.
    """
    tools: list[mcp_types.Tool] = []
    skipped: list[SkippedTool] = []
    notices: list[str] = []
    size_bytes, cursor = 0, None
    cursors: set[str] = set()
    for _ in range(PAGES_MAX):
        page = await _page(client, cursor)
        tools += page.tools
        skipped += skipped_tools(page)
        size_bytes += sum(len(tool.model_dump_json()) for tool in page.tools)
        if len(tools) > TOOLS_MAX or size_bytes > BYTES_MAX:
            raise DiscoveryFailed(
                f"the MCP server lists more than {TOOLS_MAX} tools or {BYTES_MAX >> 20} MiB"
            )
        cursor = page.next_cursor
        if cursor in cursors:
            notices.append(
                f"the list names its page {(cursor or '')[:50]!r} twice and ends with what was read"
            )
            break
        if not cursor:
            break
        cursors.add(cursor)
    else:
        raise DiscoveryFailed(f"the MCP server's list of tools has more than {PAGES_MAX} pages")
    info = client.server_info
    name = f"{info.name} {info.version}".strip() if info else ""
    listed = await listed_tools(tools, tenant)
    skipped += [each for each in listed if isinstance(each, SkippedTool)]
    found = tuple(each for each in listed if isinstance(each, ListedTool))
    # A page that came twice leaves out the same ones.
    return Discovery(name, found, tuple(dict.fromkeys(skipped)), tuple(notices))


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


async def listed_tools(
    tools: Sequence[mcp_types.Tool], tenant: str
) -> list[ListedTool | SkippedTool]:
    known: dict[str, mcp_types.Tool] = {}
    listed: list[ListedTool | SkippedTool] = []
    for tool in tools:
        if tool.name in known:
            # A page that came twice lists the same ones.
            if tool != known[tool.name]:
                listed.append(SkippedTool(tool.name, "another tool of the list has this name"))
            continue
        known[tool.name] = tool
        # A schema takes up to a second, and a list has thousands: tenants take turns.
        listed.append(await SCHEMAS.run(tenant, partial(_listed, tool)))
    return listed


def _listed(tool: mcp_types.Tool) -> ListedTool | SkippedTool:
    try:
        return _readable(tool)
    except UnusableSchema as error:
        return SkippedTool(tool.name, f"its inputSchema cannot be used: {error}")


def _readable(tool: mcp_types.Tool) -> ListedTool:
    parameters = loosened_object(input_schema(tool))
    notices = [f"inputSchema: {notice}" for notice in parameters.notices]
    result: JsonObject | None = None
    if (promised := output_schema(tool)) is not None:
        try:
            loose = loosened(promised)
            result = loose.schema
            notices += [f"outputSchema: {notice}" for notice in loose.notices]
        except UnusableSchema as error:
            notices.append(f"outputSchema: results are not checked: {error}")
    description = (tool.description or tool.title or "").strip()
    if len(description) > DESCRIPTION_CHARACTERS_MAX:
        description = f"{description[: DESCRIPTION_CHARACTERS_MAX - 3]}..."
        notices.append(f"description: cut after {DESCRIPTION_CHARACTERS_MAX} characters")
    return ListedTool(
        name=tool.name,
        description=description,
        parameters_schema=parameters.schema,
        result_schema=result,
        side_effect=_side_effect(tool.annotations),
        notices=tuple(notices),
    )


def _side_effect(hints: mcp_types.ToolAnnotations | None) -> SideEffect:
    """Reads the side effect from the server's hints; without any a tool counts as effectful."""
    if hints is not None and hints.read_only_hint:
        return SideEffect.PURE
    if hints is not None and hints.idempotent_hint:
        return SideEffect.IDEMPOTENT
    return SideEffect.EFFECTFUL
