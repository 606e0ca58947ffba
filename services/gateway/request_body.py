"""Bodies have a largest size and a longest time to arrive, and no text that cannot be stored."""

import asyncio
import json
import time
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.error_responses import plain_error_response
from podium_kit.rpc.texts import require_no_nul_in


class RequestBodyMiddleware:
    """Rejects a body by its announced size at once, by its real size as it arrives."""

    def __init__(self, app: ASGIApp, bytes_max: int, timeout_s: float) -> None:
        self._app = app
        self._bytes_max = bytes_max
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on with a guarded body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = Headers(scope=scope).get("content-length", "0")
        if announced.isdecimal() and int(announced) > self._bytes_max:
            rejection = plain_error_response(413, self._too_large(), "BODY_TOO_LARGE")
            await rejection(scope, receive, send)
            return
        await self._app(scope, self._guarded(receive), send)

    def _guarded(self, receive: Receive) -> Receive:
        deadline = time.monotonic() + self._timeout_s
        received_bytes, complete = 0, False

        async def guarded() -> Message:
            nonlocal received_bytes, complete
            if complete:  # what follows is the disconnect, for which one may wait for hours
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), deadline - time.monotonic())
            except TimeoutError:
                raise HTTPException(408, f"no body within {self._timeout_s:g} s") from None
            received_bytes += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if received_bytes > self._bytes_max:
                raise HTTPException(413, self._too_large())
            return message

        return guarded

    def _too_large(self) -> str:
        return f"the body is larger than {self._bytes_max} bytes; send less at once"


async def require_texts(request: Request) -> None:
    """Raises NulInText for a path, query or JSON body; of routes that are no RPC."""
    require_no_nul_in(request.path_params)
    for name, text in request.query_params.multi_items():
        require_no_nul_in({name: text})
    # Only this can become the character; what is no JSON is rejected after this.
    if b"\\u0000" in (body := await request.body()):
        with suppress(ValueError, RecursionError):
            require_no_nul_in(json.loads(body))
