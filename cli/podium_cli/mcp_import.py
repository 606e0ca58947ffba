"""Asking a Model Context Protocol server, through the gateway, for its tools."""

from podium.adapters.v1 import tool_adapter_service_pb2
from podium.registry.v1 import tool_pb2
from podium_cli.gateway import Gateway


async def discover(gateway: Gateway, server: list[str], prefix: str) -> list[tool_pb2.ToolSpec]:
    """Specs ready to be registered; a URL speaks HTTP, anything else is a command."""
    if server[0].startswith(("http://", "https://")):
        connection = tool_pb2.McpConnection(http=tool_pb2.McpHttp(url=server[0]))
    else:
        stdio = tool_pb2.McpStdio(command=server[0], args=server[1:])
        connection = tool_pb2.McpConnection(stdio=stdio)
    found = await gateway.post(
        "/v1/tools/discover-mcp",
        tool_adapter_service_pb2.DiscoverMcpToolsRequest(connection=connection, name_prefix=prefix),
        tool_adapter_service_pb2.DiscoverMcpToolsResponse,
    )
    return list(found.specs)
