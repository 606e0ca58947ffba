import asyncio
from collections import Counter
from typing import Any, Self

from aiohttp import web

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
