import asyncio
import gzip
import json
import os
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, Self

from aiohttp import web

from integration.misbehaviour.faults import MEBIBYTE, TEAPOT, Fault
from integration.misbehaviour.mcp_program import greeting

# Answers a request correctly in spite of the fault; None where the fault applies.
Well = Callable[[web.Request, Fault | None], Awaitable[web.Response | None]]
HALF_OF_JSON = ("application/json", b'{"half": ')


class MisbehavingServer:
    """Answers every request with `fault`, but those `well` answers.

    `wrong` is JSON that is not what was promised; `half` the beginning of an answer, of that
    media type, after which the connection ends. The fault may be changed at any time.
    """

    def __init__(
        self,
        fault: Fault | None,
        wrong: bytes = b"{}",
        half: tuple[str, bytes] = HALF_OF_JSON,
        well: Well | None = None,
    ) -> None:
        self.fault = fault
        self._wrong = wrong
        self._half = half
        self._well = well
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._answer)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        self.url = ""

    async def __aenter__(self) -> Self:
        # Not while a call waits for it.
        _packed()
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if self._well and (response := await self._well(request, self.fault)):
            return response
        match self.fault:
            case Fault.NOT_JSON:
                return as_json(TEAPOT)
            case Fault.WRONG_SCHEMA:
                return as_json(self._wrong)
            case Fault.BINARY:
                return as_json(os.urandom(1024))
            case Fault.HUNDRED_MEGABYTES:
                return await _hundred_megabytes(request)
            case Fault.PACKED:
                # Ignores the client's Accept-Encoding.
                packed = as_json(_packed())
                packed.headers["content-encoding"] = "gzip"
                return packed
            case Fault.HALF:
                await self._begin(request)
            case Fault.HANG:
                await asyncio.Event().wait()
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async def _begin(self, request: web.Request) -> None:
        media_type, body = self._half
        response = web.StreamResponse(headers={"content-type": media_type})
        response.content_length = 1000
        await response.prepare(request)
        await response.write(body)
        # What is still in the socket would go with the connection.
        await asyncio.sleep(0.05)


async def _hundred_megabytes(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "application/json"})
    await response.prepare(request)
    for _ in range(100):
        await response.write(MEBIBYTE)
    return response


@cache
def _packed() -> bytes:
    return gzip.compress(100 * MEBIBYTE)


def as_json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


def mcp_greeting(message: dict[str, Any]) -> web.Response:
    reply = greeting(message)
    if reply is None:
        return web.Response(status=202 if message else 405)
    return as_json(json.dumps(reply).encode())
