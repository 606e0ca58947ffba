"""Around every request: an id, one log line, one measurement, and "internal error"."""

import logging
import re
import time
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uuid_utils import uuid7

from gateway.http.error_responses import plain_error_response
from gateway.origin import serving_request
from podium_kit import telemetry

log = logging.getLogger(__name__)
# A caller's own id is kept when it is safe to write into a log line.
# Without a key, too, a request may have a path of 60 kB.
PATH_CHARACTERS_MAX = 256
ACCEPTED_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
PROBES = {"/healthz", "/readyz"}


@dataclass
class Exchange:
    request_id: str
    started: float
    status: int = 0


class RequestLogMiddleware:
    """Outermost, so that it sees every answer. Never logs a query or a body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._duration_s = telemetry.get_meter(__name__).create_histogram(
            "http.server.request.duration", "s", "time from request to last byte of the answer"
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = Exchange(_request_id(scope), time.perf_counter())

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = exchange.request_id
            await send(message)

        try:
            with serving_request(exchange.request_id):
                await self._app(scope, receive, send_named)
        except Exception:
            log.exception("internal error, request %s", exchange.request_id)
            if exchange.status:
                raise
            message = f"internal error; quote request {exchange.request_id} to the operator"
            failure = plain_error_response(500, message, "INTERNAL")
            await failure(scope, receive, send_named)
        finally:
            self._report(scope, exchange)

    def _report(self, scope: Scope, exchange: Exchange) -> None:
        duration_s = time.perf_counter() - exchange.started
        labels = {
            "http.request.method": scope["method"],
            "http.response.status_code": exchange.status,
            "http.route": getattr(scope.get("route"), "path", "unmatched"),
        }
        self._duration_s.record(duration_s, labels)
        if scope["path"] not in PROBES:
            what = f"{scope['method']} {scope['path'][:PATH_CHARACTERS_MAX]} {exchange.status}"
            log.info("%s in %.3f s, request %s", what, duration_s, exchange.request_id)


def _request_id(scope: Scope) -> str:
    given = Headers(scope=scope).get("x-request-id", "")
    return given if ACCEPTED_ID.fullmatch(given) else str(uuid7())
