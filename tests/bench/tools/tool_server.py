"""Tools that do nothing, at once or slowly, outside the measured processes.

`python tool_server.py http PORT`, `mcp-http PORT` or `mcp-stdio`. Never imported: the SDK's server
configures logging, and a benchmark that logs every request is slowed by it.
"""

import asyncio
import sys

from aiohttp import web
from mcp.server import MCPServer

SLOW_S = 0.5

server = MCPServer("bench", version="1.0", log_level="WARNING")


@server.tool()
def double(number: int) -> int:
    return 2 * number


@server.tool()
async def slow() -> str:
    await asyncio.sleep(SLOW_S)
    return "at last"


async def _double(request: web.Request) -> web.Response:
    return web.json_response({"result": 2 * int(request.query["number"])})


async def _slow(_: web.Request) -> web.Response:
    await asyncio.sleep(SLOW_S)
    return web.json_response({"result": "at last"})


def main(kind: str, port: int = 0) -> None:
    """Serves until it is killed, or until its input ends."""
    if kind == "mcp-stdio":
        server.run(transport="stdio")
    elif kind == "mcp-http":
        server.run(transport="streamable-http", host="127.0.0.1", port=port)
    else:
        app = web.Application()
        app.add_routes([web.get("/double", _double), web.get("/slow", _slow)])
        web.run_app(app, host="127.0.0.1", port=port, print=None, access_log=None)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
