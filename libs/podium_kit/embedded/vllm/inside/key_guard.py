"""Runs inside vLLM: no path without the key, except the one that says whether it is well.

vLLM itself asks for its key under /v1 and a few more, and serves completions at /invocations, too.
"""

import hmac
import json
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

OPEN = "/health"
REJECTED = json.dumps({"error": "this server takes the platform's own requests alone"}).encode()


class KeyGuard:
    """ASGI middleware, named in vLLM's --middleware; the key is vLLM's own variable."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._wanted = b"Bearer " + os.environ["VLLM_API_KEY"].encode()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"] == OPEN or self._has_key(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": REJECTED})

    def _has_key(self, scope: Message) -> bool:
        shown = dict(scope["headers"]).get(b"authorization", b"")
        return hmac.compare_digest(shown, self._wanted)
