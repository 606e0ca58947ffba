"""`python -m chaos.effects`: a service outside that does something, and writes down what it did.

It places orders by HTTP, gRPC and MCP.
"""

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from mcp.server import MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from chaos.effects_log import EffectsLog
from chaos.grpc_orders import orders_server
from chaos.scripts import MCP_ORDER_TOOL


def application(log: EffectsLog, grpc_port: int) -> Starlette:
    async def order(request: Request) -> Response:
        wanted = (await request.json())["order"]
        log.place(wanted)
        return JSONResponse({"placed": wanted})

    async def quote(request: Request) -> Response:
        return JSONResponse({"item": request.path_params["item"], "price": "3.50"})

    mcp = _mcp_server(log).streamable_http_app()

    @asynccontextmanager
    async def running(_app: Starlette) -> AsyncIterator[None]:
        server = orders_server(log.place, grpc_port)
        await server.start()
        try:
            async with mcp.router.lifespan_context(mcp):
                yield
        finally:
            await server.stop(None)

    return Starlette(
        routes=[
            Route("/orders", order, methods=["POST"]),
            Route("/quotes/{item}", quote),
            Mount("/", mcp),
        ],
        lifespan=running,
    )


def _mcp_server(log: EffectsLog) -> MCPServer:
    server = MCPServer("orders", version="1.0")

    @server.tool(name=MCP_ORDER_TOOL)
    def place(order: str) -> str:
        """Places an order."""
        log.place(order)
        return f"placed {order}"

    return server


def main() -> None:
    parser = argparse.ArgumentParser(prog="chaos.effects", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--grpc-port", type=int, required=True)
    parser.add_argument("--log", type=Path, required=True)
    given = parser.parse_args()
    app = application(EffectsLog(given.log), given.grpc_port)
    uvicorn.run(app, port=given.port, log_level="critical", access_log=False)


if __name__ == "__main__":
    main()
