"""Who may pass: verifies the API key, acts as its owner, limits its open requests."""

from collections import Counter

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.api_keys import ApiKey, ApiKeys
from gateway.error_responses import error_response
from gateway.errors import MissingApiKey, TooManyRequests
from rpckit.errors import DomainError
from rpckit.identity import acting_as

# Everything that shows or does something; the rest is static or says only "alive".
GUARDED = "/v1/"


class AccessMiddleware:
    """Plain ASGI, so that the identity is set for everything inside the request."""

    def __init__(self, app: ASGIApp, keys: ApiKeys, concurrency_per_key: int) -> None:
        self._app = app
        self._keys = keys
        self._limit = concurrency_per_key
        self._open: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, or answers 401 or 429 in OpenAI's error shape."""
        if scope["type"] != "http" or not scope["path"].startswith(GUARDED):
            await self._app(scope, receive, send)
            return
        try:
            key = await self._keys.verify(bearer_key(Headers(scope=scope)))
            if self._open[key.id] >= self._limit:
                raise TooManyRequests(self._limit)
        except DomainError as error:
            await error_response(error)(scope, receive, send)
            return
        await self._serve(key, scope, receive, send)

    async def _serve(self, key: ApiKey, scope: Scope, receive: Receive, send: Send) -> None:
        self._open[key.id] += 1
        try:
            with acting_as(key.identity()):
                await self._app(scope, receive, send)
        finally:
            self._open[key.id] -= 1
            if not self._open[key.id]:
                del self._open[key.id]


def bearer_key(headers: Headers) -> str:
    """The API key of a request. Raises MissingApiKey."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not key.strip():
        raise MissingApiKey
    return key.strip()
