"""The ways in which a server can answer badly, over HTTP and over standard streams."""

import asyncio
import json
import os
import sys
from enum import StrEnum
from typing import Any, Self

from aiohttp import web

MEBIBYTE = b"x" * (1 << 20)


class Fault(StrEnum):
    """What is wrong with an answer."""

    NOT_JSON = "not_json"
    WRONG_SCHEMA = "wrong_schema"
    HUNDRED_MEGABYTES = "hundred_megabytes"
    BINARY = "binary"
    HALF = "half"
    RESET = "reset"
    HANG = "hang"


class MisbehavingServer:
    """Answers every POST and GET with one fault; MCP's handshake is answered as it should be.

    `wrong` is JSON, but not what the tool promises; in an MCP answer it is the result.
    """

    def __init__(self, fault: Fault, wrong: Any) -> None:
        self._fault = fault
        self._wrong = wrong
        self.sent_bytes = 0
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._answer)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        self.url = ""

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.text()
        if request.path == "/mcp":
            message = json.loads(body) if body else {}
            if message.get("method") != "tools/call":
                return handshake(message)
            return await self._misbehave(request, {**REPLY, "id": message["id"]})
        return await self._misbehave(request, {})

    async def _misbehave(
        self, request: web.Request, envelope: dict[str, Any]
    ) -> web.StreamResponse:
        wrong = {**envelope, "result": self._wrong} if envelope else self._wrong
        match self._fault:
            case Fault.NOT_JSON:
                return as_json(b"<html>I am a teapot")
            case Fault.WRONG_SCHEMA:
                return as_json(json.dumps(wrong).encode())
            case Fault.BINARY:
                return as_json(os.urandom(1024))
            case Fault.HUNDRED_MEGABYTES:
                return await self._hundred_megabytes(request)
            case Fault.HALF:
                headers = {"content-type": "application/json", "content-length": "1000"}
                response = web.StreamResponse(headers=headers)
                await response.prepare(request)
                await response.write(b'{"half": ')
                await asyncio.sleep(0.05)
            case Fault.HANG:
                await asyncio.Event().wait()
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async def _hundred_megabytes(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "application/json"})
        await response.prepare(request)
        for _ in range(100):
            await response.write(MEBIBYTE)
            self.sent_bytes += len(MEBIBYTE)
        return response


REPLY = {"jsonrpc": "2.0"}
INITIALIZED = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "misbehaving", "version": "1"},
}


def handshake(message: dict[str, Any]) -> web.Response:
    """What a server says before its first call."""
    if message.get("method") == "initialize":
        return as_json(json.dumps({**REPLY, "id": message["id"], "result": INITIALIZED}).encode())
    if "id" in message:
        return as_json(json.dumps(no_tools(message)).encode())
    return web.Response(status=202 if message else 405)


def no_tools(message: dict[str, Any]) -> dict[str, Any]:
    """The answer to every other request: the client asks which tools there are."""
    return {**REPLY, "id": message["id"], "result": {"tools": []}}


def as_json(body: bytes) -> web.Response:
    """A body that claims to be JSON."""
    return web.Response(body=body, content_type="application/json")


def misbehave_on_standard_streams(fault: Fault) -> None:
    """An MCP server as a process: `python misbehaviour.py FAULT`."""
    out = sys.stdout.buffer
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "initialize":
            reply = {**REPLY, "id": message["id"], "result": INITIALIZED}
            out.write(json.dumps(reply).encode() + b"\n")
        elif message.get("method") == "tools/call":
            answer = {**REPLY, "id": message["id"], "result": {"content": "no list"}}
            out.write(
                {
                    Fault.NOT_JSON: b"<html>I am a teapot\n",
                    Fault.WRONG_SCHEMA: json.dumps(answer).encode() + b"\n",
                    Fault.BINARY: os.urandom(1024) + b"\n",
                    Fault.HUNDRED_MEGABYTES: MEBIBYTE * 100,
                    Fault.HALF: json.dumps(answer).encode()[:20],
                }.get(fault, b"")
            )
            if fault in {Fault.HALF, Fault.RESET}:
                out.flush()
                os._exit(1)
        elif "id" in message:
            out.write(json.dumps(no_tools(message)).encode() + b"\n")
        out.flush()


if __name__ == "__main__":
    misbehave_on_standard_streams(Fault(sys.argv[1]))
