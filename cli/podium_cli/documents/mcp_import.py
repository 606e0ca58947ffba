"""Asking a Model Context Protocol server, through the gateway, for its tools."""

from podium.adapters.v1 import tool_adapter_service_pb2
from podium.registry.v1 import tool_pb2, tool_registry_service_pb2
from podium_kit.client.gateway import Gateway


async def discover(gateway: Gateway, server: str, prefix: str) -> list[tool_pb2.ToolSpec]:
    """Specs ready to be registered. Raises Rejected, Unreachable."""
    found = await gateway.post(
        "/v1/tools/discover-mcp",
        tool_adapter_service_pb2.DiscoverMcpToolsRequest(
            connection=connection_of(server), name_prefix=prefix
        ),
        tool_adapter_service_pb2.DiscoverMcpToolsResponse,
    )
    return list(found.specs)


def connection_of(server: str) -> tool_pb2.McpConnection:
    """How the server is reached; a URL speaks HTTP, anything else is a defined server's name."""
    if server.startswith(("http://", "https://")):
        return tool_pb2.McpConnection(http=tool_pb2.McpHttp(url=server))
    return tool_pb2.McpConnection(stdio=tool_pb2.McpStdio(server=server))


async def vanished(gateway: Gateway, specs: list[tool_pb2.ToolSpec], shared: bool) -> list[str]:
    """Names of registered tools of the same server that it no longer has.

    A server that lists nothing at all loses nothing: it is more likely broken than empty.
    """
    if not specs:
        return []
    names, server = {spec.name for spec in specs}, _server(specs[0])
    listed = await gateway.all(
        "/v1/tools", tool_registry_service_pb2.ListToolsResponse, kinds=["TOOL_KIND_MCP"]
    )
    return [
        tool.spec.name
        for tool in listed.tools
        if tool.shared == shared and tool.spec.name not in names and _server(tool.spec) == server
    ]


def _server(spec: tool_pb2.ToolSpec) -> tuple[str, tool_pb2.McpConnection]:
    """Prefix and connection, the same for all tools of one import."""
    connection = tool_pb2.McpConnection()
    connection.CopyFrom(spec.connection.mcp)
    connection.tool_name = ""
    return spec.name.removesuffix(spec.connection.mcp.tool_name.lower()), connection
