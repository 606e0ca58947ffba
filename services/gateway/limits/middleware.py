import asyncio

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.http.error_responses import error_response
from gateway.http.request_body import is_guarded
from gateway.limits.open_requests import OpenRequests
from gateway.limits.rate_limiter import RateLimiter, RateLimitStatus, rate_limit_status
from gateway.limits.service import LimitBook, holding_to
from podium_kit.rpc.errors import DependencyAway, DomainError
from podium_kit.rpc.identity import current_identity


class LimitMiddleware:
    """Inside AccessMiddleware, which knows the tenant."""

    def __init__(
        self,
        app: ASGIApp,
        book: LimitBook,
        rate: RateLimiter,
        open_requests: OpenRequests,
        timeout_s: float,
    ) -> None:
        self._app = app
        self._book = book
        self._rate = rate
        self._open = open_requests
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not is_guarded(scope):
            await self._app(scope, receive, send)
            return
        tenant, answering = current_identity().tenant, send
        try:
            # Requests of a tenant take turns at the database: while it stalls, none waits for all.
            async with asyncio.timeout(self._timeout_s) as admission:
                limits = await self._book.of(tenant)
                answering = _with_headers(send, rate_limit_status(limits, tokens=0))
                answering = _with_headers(send, await self._rate.admit(tenant, limits))
                async with self._open.slot(tenant, limits):
                    admission.reschedule(None)
                    with holding_to(limits):
                        await self._app(scope, receive, answering)
        except DomainError as error:
            await error_response(error)(scope, receive, answering)
        except TimeoutError:
            if not admission.expired():
                raise
            await error_response(DependencyAway())(scope, receive, answering)


def _with_headers(send: Send, now: RateLimitStatus) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["x-ratelimit-limit-requests"] = str(now.limit)
            headers["x-ratelimit-remaining-requests"] = str(now.remaining)
            headers["x-ratelimit-reset-requests"] = f"{now.reset_s:.3f}s"
        await send(message)

    return sending
