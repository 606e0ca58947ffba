"""Bodies have a largest size, a longest time to arrive and bounded JSON, and no unstorable text."""

import asyncio
import json
import re
import time
from collections.abc import Callable
from contextlib import ExitStack

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.errors import MalformedRequest, ServerBusy
from gateway.http.error_responses import error_response, plain_error_response
from podium_kit.limits.concurrency import FairSemaphore
from podium_kit.limits.json_cost import CostlyJson, require_bounded_json
from podium_kit.rpc.identity import current_identity
from podium_kit.rpc.texts import require_no_nul_in

LARGE_BYTES = 1024 * 1024
# Parsed, a body can take many times its size.
LARGE_AT_ONCE = 2
# One text of 20 MiB, which JSON may write with twice as many bytes.
LARGER = {"/v1/tools/read-openapi": 48 * 1024 * 1024}
# NUL, the first half of a pair without a second one, and a second one without a first one. Where a
# backslash is escaped before it, it is none of them.
UNFIT = re.compile(
    rb"\\u(?:0000|[dD][89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..\\u)[dD][c-fC-F])",
    re.DOTALL,
)
# Paths that show or do something; the others are static or only report that the process is alive.
GUARDED = "/v1/"


class BodyRejected(Exception):
    def __init__(self, status: int, message: str, reason: str) -> None:
        super().__init__(message)
        self.response = plain_error_response(status, message, reason)


class LargeBodies:
    """Large bodies take turns; a free one goes to the tenant that has the fewest."""

    def __init__(self, patience_s: float, turn_s: float) -> None:
        self._patience_s = patience_s
        self._turn_s = turn_s
        self._places = FairSemaphore(LARGE_AT_ONCE)

    async def turn(self) -> "Turn":
        tenant = current_identity().tenant
        try:
            async with asyncio.timeout(self._patience_s):
                await self._places.acquire(tenant)
        except TimeoutError as error:
            raise ServerBusy from error
        return Turn(lambda: self._places.release(tenant), self._turn_s)


class Turn:
    """Ends once, at the latest after its time: a slow reader does not hold up the others."""

    def __init__(self, leave: Callable[[], None], turn_s: float) -> None:
        self._leave = leave
        self._end = asyncio.get_running_loop().call_later(turn_s, self.end)
        self._ended = False

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            self._end.cancel()
            self._leave()


def _require_bounded(body: bytes) -> None:
    # Where json would read another encoding, a quote is not where the counting sees one.
    if not json.detect_encoding(body).startswith("utf-8"):
        raise MalformedRequest("the body is not encoded in UTF-8")
    try:
        require_bounded_json(body)
    except CostlyJson as error:
        raise MalformedRequest(f"the JSON {error}; send less at once, and flatter") from error


class RequestBodyMiddleware:
    """Passes a request on once its whole body is there and its JSON is bounded.

    Inside AccessMiddleware: who is unknown may send no body at all.
    """

    def __init__(self, app: ASGIApp, bytes_max: int, timeout_s: float) -> None:
        self._app = app
        self._bytes_max = bytes_max
        self._timeout_s = timeout_s
        # A turn is one timeout to arrive and one to be parsed; who waits outlasts those who
        # only pretend to send.
        self._large = LargeBodies(2 * timeout_s, 2 * timeout_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        announced = headers.get("content-length", "0")
        announced_bytes = int(announced) if announced.isdecimal() else 0
        with ExitStack() as turns:
            try:
                if not is_guarded(scope):
                    _require_none(announced_bytes, headers)
                bytes_max = max(self._bytes_max, LARGER.get(scope["path"], 0))
                _require_size(announced_bytes, bytes_max)
                body = await self._read(receive, bytes_max, turns)
                _require_bounded(body)
                await self._app(scope, _replaying(body, receive, turns), send)
                return
            except ClientDisconnect:
                return
            except BodyRejected as rejected:
                rejection: Response = rejected.response
            except (MalformedRequest, ServerBusy) as error:
                rejection = error_response(error)
        await rejection(scope, receive, send)

    async def _read(self, receive: Receive, bytes_max: int, turns: ExitStack) -> bytes:
        deadline = time.monotonic() + self._timeout_s
        parts: list[bytes] = []
        received_bytes, complete, has_turn = 0, False, False
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
            # What was announced and never came would take turns from those who send.
            if received_bytes > LARGE_BYTES and not has_turn:
                waiting_since = time.monotonic()
                turns.callback((await self._large.turn()).end)
                deadline += time.monotonic() - waiting_since
                has_turn = True
        return b"".join(parts)


def _require_none(announced_bytes: int, headers: Headers) -> None:
    if announced_bytes or "transfer-encoding" in headers:
        rejected = BodyRejected(413, f"only paths under {GUARDED} take a body", "BODY_TOO_LARGE")
        # What is still to come is not waited for.
        rejected.response.headers["connection"] = "close"
        raise rejected


def _require_size(size_bytes: int, bytes_max: int) -> None:
    if size_bytes > bytes_max:
        large = f"the body is larger than {bytes_max} bytes; send less at once"
        raise BodyRejected(413, large, "BODY_TOO_LARGE")


def _replaying(body: bytes, receive: Receive, turns: ExitStack) -> Receive:
    left = [body]

    async def replaying() -> Message:
        # What follows the body is the disconnect, and is asked for once the body is parsed: a
        # chat may wait for its answer for hours.
        if not left:
            turns.close()
            return await receive()
        return {"type": "http.request", "body": left.pop(), "more_body": False}

    return replaying


async def require_texts(request: Request) -> None:
    """Raises NulInText for a path, query or JSON body, and UnicodeEncodeError for a body with half
    a character; of routes that are no RPC."""
    require_no_nul_in(request.path_params)
    for name, text in request.query_params.multi_items():
        require_no_nul_in({name: text})
    if not UNFIT.search(body := await request.body()):
        return
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        # What is no JSON is rejected after this.
        return
    require_no_nul_in(values)
    # An answer repeats parts of its request: it could not be written, with an episode begun.
    json.dumps(values, ensure_ascii=False).encode()


def is_guarded(scope: Scope) -> bool:
    return scope["type"] == "http" and str(scope["path"]).startswith(GUARDED)
