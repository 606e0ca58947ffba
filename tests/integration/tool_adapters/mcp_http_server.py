"""An MCP server on streamable HTTP that counts: `python mcp_http_server.py PORT`."""

import sys

from mcp.server import MCPServer

server = MCPServer("counter", version="1.0")


@server.tool()
def double(number: int) -> int:
    """Twice the number."""
    return 2 * number


if __name__ == "__main__":
    server.run(transport="streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
