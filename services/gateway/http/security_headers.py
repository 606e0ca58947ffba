from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = b"content-security-policy"
# Answers of the API load nothing and are framed by no one, whatever a tool or a user wrote in them.
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
NOTHING = (POLICY, b"default-src 'none'; frame-ancestors 'none'; form-action 'none'")
HTTPS_ONLY = (b"strict-transport-security", b"max-age=31536000; includeSubDomains")


class SecurityHeadersMiddleware:
    """Adds browsers' security headers to every answer; a page states a policy of its own."""

    def __init__(self, app: ASGIApp, public_url: str) -> None:
        self._app = app
        self._is_https = public_url.startswith("https:")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_https = self._is_https or scope["scheme"] == "https"

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = _added(message.get("headers", ()), is_https)
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _added(headers: Sequence[tuple[bytes, bytes]], is_https: bool) -> list[tuple[bytes, bytes]]:
    has_policy = any(name == POLICY for name, _ in headers)
    added = [*headers, *HEADERS, *(() if has_policy else (NOTHING,))]
    return [*added, HTTPS_ONLY] if is_https else added
