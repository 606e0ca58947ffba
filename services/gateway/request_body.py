"""Bodies have a largest size, a longest time to arrive and bounded JSON, and no unstorable text."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext, suppress

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.error_responses import error_response, plain_error_response
from gateway.errors import MalformedRequest, ServerBusy
from gateway.json_structure import require_bounded_json
from podium_kit.rpc.texts import require_no_nul_in

LARGE_BYTES = 1024 * 1024
# Parsed, a body can take many times its size.
LARGE_AT_ONCE = 2
# One text of 20 MiB, which JSON may write with twice as many bytes.
LARGER = {"/v1/tools/read-openapi": 48 * 1024 * 1024}


class BodyRejected(Exception):
    """The body is larger or slower than bodies may be."""

    def __init__(self, status: int, message: str, reason: str) -> None:
        super().__init__(message)
        self.response = plain_error_response(status, message, reason)


class LargeBodies:
    """Large bodies, of all tenants together, take turns."""

    def __init__(self, patience_s: float, turn_s: float) -> None:
        self._patience_s = patience_s
        self._turn_s = turn_s
        self._turns = asyncio.Semaphore(LARGE_AT_ONCE)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits for a turn. Raises ServerBusy."""
        try:
            async with asyncio.timeout(self._patience_s):
                await self._turns.acquire()
        except TimeoutError as error:
            raise ServerBusy from error
        # A chat may wait for its answer for hours; its body is parsed long before.
        loop = asyncio.get_running_loop()
        end = loop.call_later(self._turn_s, self._turns.release)
        try:
            yield
        finally:
            if end.when() > loop.time():
                end.cancel()
                self._turns.release()


class RequestBodyMiddleware:
    """Passes a request on once its whole body is there and its JSON is bounded."""

    def __init__(self, app: ASGIApp, bytes_max: int, timeout_s: float) -> None:
        self._app = app
        self._bytes_max = bytes_max
        self._timeout_s = timeout_s
        # A turn is one timeout to arrive and one to be parsed.
        self._large = LargeBodies(timeout_s, 2 * timeout_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers 400, 408, 413 or 503 itself."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        announced = headers.get("content-length", "0")
        announced_bytes = int(announced) if announced.isdecimal() else 0
        large = announced_bytes > LARGE_BYTES or "transfer-encoding" in headers
        try:
            bytes_max = max(self._bytes_max, LARGER.get(scope["path"], 0))
            _require_size(announced_bytes, bytes_max)
            async with self._large.turn() if large else nullcontext():
                body = await self._read(receive, bytes_max)
                require_bounded_json(body)
                await self._app(scope, _replaying(body, receive), send)
            return
        except ClientDisconnect:
            return
        except BodyRejected as rejected:
            rejection: Response = rejected.response
        except (MalformedRequest, ServerBusy) as error:
            rejection = error_response(error)
        await rejection(scope, receive, send)

    async def _read(self, receive: Receive, bytes_max: int) -> bytes:
        deadline = time.monotonic() + self._timeout_s
        parts: list[bytes] = []
        received_bytes, complete = 0, False
        while not complete:
            try:
                message = await asyncio.wait_for(receive(), deadline - time.monotonic())
            except TimeoutError:
                slow = f"no body within {self._timeout_s:g} s"
                raise BodyRejected(408, slow, "BODY_TOO_SLOW") from None
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            parts.append(message.get("body", b""))
            received_bytes += len(parts[-1])
            _require_size(received_bytes, bytes_max)
            complete = not message.get("more_body", False)
        return b"".join(parts)


def _require_size(size_bytes: int, bytes_max: int) -> None:
    if size_bytes > bytes_max:
        large = f"the body is larger than {bytes_max} bytes; send less at once"
        raise BodyRejected(413, large, "BODY_TOO_LARGE")


def _replaying(body: bytes, receive: Receive) -> Receive:
    left = [body]

    async def replaying() -> Message:
        # What follows the body is the disconnect.
        if not left:
            return await receive()
        return {"type": "http.request", "body": left.pop(), "more_body": False}

    return replaying


async def require_texts(request: Request) -> None:
    """Raises NulInText for a path, query or JSON body; of routes that are no RPC."""
    require_no_nul_in(request.path_params)
    for name, text in request.query_params.multi_items():
        require_no_nul_in({name: text})
    # Only this can become the character; what is no JSON is rejected after this.
    if b"\\u0000" in (body := await request.body()):
        with suppress(ValueError, RecursionError):
            require_no_nul_in(json.loads(body))
