"""An OpenAI-compatible server that answers after a set time, as a process of its own.

It calls the calculator in every turn but the last, which it reads from the
request's id (`<episode id>/<turn>/model/0`), so it keeps no state.
"""

import argparse
import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web

MODEL = "bench"
CALL = {"tool": "calculator", "arguments": {"expression": "6*7"}}


@dataclass
class Script:
    """The delay of answers, the turns of an episode, and the text that a turn carries."""

    delay_s: float
    turns: int
    thought_bytes: int
    streams: bool = False
    in_flight: int = 0

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        with self._counted():
            await asyncio.sleep(self.delay_s)
        # Who asks outside of an episode gets the answer.
        parts = request.headers.get("X-Request-Id", "").split("/")
        turn = int(parts[1]) if len(parts) > 1 else self.turns
        completion = self._completion(body, turn)
        if self.streams and body.get("stream"):
            return await self._stream(request, completion)
        return web.json_response(completion)

    async def models(self, _request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    async def calls(self, _request: web.Request) -> web.Response:
        """GET /in-flight: how many callers wait for an answer."""
        return web.Response(text=str(self.in_flight))

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1

    async def _stream(self, request: web.Request, completion: dict[str, Any]) -> web.StreamResponse:
        """The first character, and the rest when a client may have seen it."""
        text = completion["choices"][0]["message"]["content"]
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        shared = {"id": completion["id"], "created": 0, "model": completion["model"]}
        for content, reason in ((text[0], None), (text[1:], "stop")):
            choice = {"index": 0, "delta": {"content": content}, "finish_reason": reason}
            chunk = {**shared, "object": "chat.completion.chunk", "choices": [choice]}
            await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
            await asyncio.sleep(0 if reason else self.delay_s)
        last = {**shared, "choices": [], "usage": completion["usage"]}
        await response.write(f"data: {json.dumps(last)}\n\ndata: [DONE]\n\n".encode())
        return response

    def _completion(self, body: dict[str, Any], turn: int) -> dict[str, Any]:
        action: dict[str, Any] = {"answer": "42"} if turn >= self.turns else dict(CALL)
        if self.thought_bytes:
            action = {"thought": f"{turn} ".ljust(self.thought_bytes, "x"), **action}
        text = json.dumps(action)
        message = {"role": "assistant", "content": text}
        return {
            "id": f"chatcmpl-{turn}",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 500, "completion_tokens": 20, "total_tokens": 520},
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--delay-s", type=float, required=True)
    parser.add_argument("--turns", type=int, required=True)
    parser.add_argument("--thought-bytes", type=int, default=0)
    parser.add_argument("--streams", action="store_true", help="when asked, as providers do")
    options = parser.parse_args()
    script = Script(options.delay_s, options.turns, options.thought_bytes, options.streams)
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/v1/chat/completions", script.chat)
    app.router.add_get("/v1/models", script.models)
    app.router.add_get("/in-flight", script.calls)
    # A caller that goes away ends its call, as it does on a real engine.
    web.run_app(
        app,
        host="127.0.0.1",
        port=options.port,
        print=None,
        access_log=None,
        handler_cancellation=True,
    )


if __name__ == "__main__":
    main()
