import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from aiohttp import web

from integration.misbehaviour.http_server import as_json, mcp_greeting
from integration.misbehaviour.mcp_program import ENVELOPE, is_call


@asynccontextmanager
async def repeating_web_server() -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", _repeat)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def _repeat(request: web.Request) -> web.Response:
    words = " ".join((*request.headers.values(), *request.query.values()))
    body = await request.text()
    match request.path:
        case "/mcp":
            return _mcp(json.loads(body) if body else {}, words)
        case "/v1/chat/completions":
            choice = {"message": {"content": words}, "finish_reason": "stop"}
            return web.json_response({"id": words, "choices": [choice]})
        case "/v1/messages":
            return web.json_response({"error": {"message": words}}, status=401)
        case "/token":
            # A token with a canary of its own.
            token = {"access_token": "canary-7d1f0c52-token", "token_type": "Bearer"}
            return web.json_response(token)
        case "/broken":
            return as_json(words.encode())
    return web.json_response({"said": words}, status=401 if request.path == "/reject" else 200)


def _mcp(message: dict[str, Any], words: str) -> web.Response:
    if not is_call(message):
        return mcp_greeting(message)
    result = {"content": [{"type": "text", "text": words}]}
    return web.json_response({**ENVELOPE, "id": message["id"], "result": result})


class _Rejecting(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    def service(self, handler_call_details: Any) -> Any:
        words = str(handler_call_details.invocation_metadata)

        async def reject(request: bytes, context: Any) -> None:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, words)

        return grpc.unary_unary_rpc_method_handler(reject)


@asynccontextmanager
async def repeating_grpc_server() -> AsyncIterator[str]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([_Rejecting()])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(0)
