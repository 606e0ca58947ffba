"""HTTP and gRPC servers that tools call: good, bad, slow, and ones that repeat what they get."""

import asyncio
import base64
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import grpc
from aiohttp import web

from integration.misbehaviour.http_server import as_json, mcp_greeting
from integration.misbehaviour.mcp_program import ENVELOPE, is_call

MEBIBYTE = bytes(1 << 20)


class WebServer:
    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.seen: list[dict[str, Any]] = []
        self.in_flight = 0
        self.in_flight_max = 0
        self.cancelled = 0
        self.sent_bytes = 0
        # A client that hangs up cancels its handler: so a test sees that it did.
        self._runner = web.AppRunner(self._app(), handler_cancellation=True, shutdown_timeout=0.1)
        self.url = ""
        self.away_url = ""

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def _app(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/echo/{tail:.*}", self._echo)
        app.router.add_get("/status/{status}", self._status)
        app.router.add_get("/flaky", self._flaky)
        app.router.add_get("/slow/{seconds}", self._slow)
        app.router.add_get("/hundred-megabytes", self._hundred_megabytes)
        app.router.add_get("/not-json", self._not_json)
        app.router.add_get("/reset", self._reset)
        app.router.add_get("/redirect", self._redirect)
        app.router.add_route("*", "/away/{tail:.*}", self._away)
        app.router.add_get("/image", self._image)
        app.router.add_post("/v1/messages", self._echo)
        return app

    async def until(self, name: str, value: int) -> None:
        while getattr(self, name) != value:
            await asyncio.sleep(0.005)

    async def _echo(self, request: web.Request) -> web.Response:
        self.requests[request.path] += 1
        seen = {
            "method": request.method,
            "path": request.raw_path,
            "query": dict(request.query),
            "headers": {name.lower(): value for name, value in request.headers.items()},
            "body": await request.text(),
        }
        self.seen.append(seen)
        return web.json_response({"seen": seen["path"]})

    async def _status(self, request: web.Request) -> web.Response:
        self.requests["/status"] += 1
        headers = {"retry-after": "7"} if request.match_info["status"] == "429" else {}
        text = "said by the API"
        return web.Response(status=int(request.match_info["status"]), text=text, headers=headers)

    async def _flaky(self, request: web.Request) -> web.Response:
        self.requests["/flaky"] += 1
        return web.Response(status=503 if self.requests["/flaky"] % 2 else 200, text="well")

    async def _slow(self, request: web.Request) -> web.Response:
        self.requests["/slow"] += 1
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        try:
            await asyncio.sleep(float(request.match_info["seconds"]))
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.in_flight -= 1
        return web.Response(text="at last")

    async def _hundred_megabytes(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(100):
            await response.write(MEBIBYTE)
            self.sent_bytes += len(MEBIBYTE)
        return response

    async def _not_json(self, request: web.Request) -> web.Response:
        return web.Response(body=b'{"half": ', content_type="application/json")

    async def _reset(self, request: web.Request) -> web.Response:
        self.requests["/reset"] += 1
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async def _redirect(self, request: web.Request) -> web.Response:
        raise web.HTTPFound("/echo/elsewhere")

    async def _away(self, request: web.Request) -> web.Response:
        self.requests["/away"] += 1
        raise web.HTTPTemporaryRedirect(self.away_url)

    async def _image(self, request: web.Request) -> web.Response:
        return web.Response(body=b"\x89PNG", content_type="image/png")


CLIENT_ID, CLIENT_SECRET = "podium", "cl1ent-s3cret"


@dataclass
class TokenServer:
    url: str = ""
    expires_in_s: int = 3600
    given: int = 0
    revoked: set[str] = field(default_factory=set)
    forms: list[dict[str, str]] = field(default_factory=list)
    api_headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def newest(self) -> str:
        return f"token-{self.given:04}"

    async def token(self, request: web.Request) -> web.Response:
        pair = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if request.headers.get("Authorization") != f"Basic {pair}":
            said = {"error": "invalid_client", "error_description": pair}
            return web.json_response(said, status=401)
        self.forms.append({name: str(value) for name, value in (await request.post()).items()})
        self.given += 1
        token = {"access_token": self.newest, "token_type": "Bearer"}
        return web.json_response({**token, "expires_in": self.expires_in_s})

    async def api(self, request: web.Request) -> web.Response:
        self.api_headers.append(dict(request.headers))
        said = request.headers.get("Authorization", "")
        good = said == f"Bearer {self.newest}" and self.newest not in self.revoked
        return web.json_response({"said": said}, status=200 if good else 401)

    async def strange(self, request: web.Request) -> web.Response:
        return web.json_response({"access_token": "mac-token-1", "token_type": "mac"})


@asynccontextmanager
async def token_server() -> AsyncIterator[TokenServer]:
    server, app = TokenServer(), web.Application()
    app.router.add_post("/token", server.token)
    app.router.add_post("/strange", server.strange)
    app.router.add_get("/api", server.api)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield server
    await runner.cleanup()


class AnthropicServer:
    def __init__(self, events: Sequence[dict[str, Any]], ending: str = "end") -> None:
        self.requests: list[dict[str, Any]] = []
        self._events = events
        self._ending = ending
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/messages", self._messages)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        self.base_url = ""

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.base_url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(await request.json())
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for event in self._events:
            data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
            await response.write(data.encode())
        if self._ending == "hang":
            await asyncio.Event().wait()
        if self._ending == "cut" and request.transport is not None:
            # Not at once: what was written must leave first.
            await asyncio.sleep(0.05)
            request.transport.abort()
        return response


def started(**usage: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {"id": "msg_1", "usage": usage}}


def wrote(text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}


def stopped(reason: str = "end_turn", **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


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
