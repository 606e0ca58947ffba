"""An MCP server on the official SDK whose tools change: `python changing_mcp_server.py PORT`."""

import sys

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("changing", version="1.0", log_level="WARNING")


def answer() -> str:
    """The same for every tool."""
    return "well"


@server.tool()
async def teach(name: str, description: str, context: Context) -> str:
    """Gives the server a tool, or another description of one, and says so."""
    if name in {tool.name for tool in await server.list_tools()}:
        server.remove_tool(name)
    server.add_tool(answer, name=name, description=description)
    await context.notify_tools_changed()
    return name


@server.tool()
async def forget(name: str, context: Context) -> str:
    """Takes a tool away and says so."""
    server.remove_tool(name)
    await context.notify_tools_changed()
    return name


if __name__ == "__main__":
    server.run(transport="streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
