"""A real HTTP server that speaks the OpenAI API and answers what a test scripts.

    with OpenAiServer(replies=["hello", Reply(status=429, headers={"retry-after": "2"})]) as server:
        ...  # server.base_url, server.requests, server.disconnects

A reply is text, a JSON object, a `Reply`, or a function of the request's body. Replies
are used in order. Without one left the server answers by itself: given a `response_format`
of type json_schema, with the smallest value of that schema, else with "ok".

`script` answers per episode instead: by the turn in the X-Request-Id, which is the request's
key (`<episode id>/<turn>/model/0`). Concurrent episodes each get the whole script, and a
request that is repeated gets the same reply. What is no turn, like a tool's call, gets the first.

As a process of its own: `python tests/openai_server.py --port 8001 --delay-s 0.5`.
"""

import argparse
import asyncio
import base64
import hashlib
import json
import struct
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from builders.smallest_instance import smallest_instance

Body = Mapping[str, Any]
EMBEDDING_SIZE = 8


@dataclass(frozen=True)
class Reply:
    """One answer. A status other than 200 answers with an OpenAI error of that message."""

    content: str = "ok"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    finish_reason: str = "stop"
    usage: Mapping[str, Any] | None = None
    message: Mapping[str, Any] = field(default_factory=dict)
    error: Mapping[str, Any] = field(default_factory=dict)
    raw_body: bytes | None = None
    # Characters after which a stream is cut off; None means never.
    cut_after: int | None = None
    # Between two events of a stream.
    pace_s: float = 0.0
    # A stream waits for it after so many events, which are of one character each.
    gate: threading.Event | None = None
    gate_after: int = 3


Scripted = str | Mapping[str, Any] | Reply | Callable[[Body], "str | Mapping[str, Any] | Reply"]


class OpenAiServer:
    """The server in a thread of this process; usable as a context manager.

    `vllm_version` makes it answer as vLLM does: /version, token ids, log-probabilities. `root` is
    then the path that it reports for its models.
    """

    def __init__(
        self,
        replies: Sequence[Scripted] = (),
        *,
        script: Sequence[Scripted] = (),
        models: Sequence[str] = ("scripted-model",),
        delay_s: float = 0.0,
        api_key: str | None = None,
        vllm_version: str | None = None,
        root: str | None = None,
        json_schema: bool = True,
        context_tokens: int | None = None,
        port: int = 0,
    ) -> None:
        self.requests: list[dict[str, Any]] = []
        self.completions: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.disconnects = 0
        self.in_flight = 0
        self.in_flight_max = 0
        self.models = list(models)
        self._replies = deque(replies)
        self._script = list(script)
        self._delay_s = delay_s
        self._api_key = api_key
        self._vllm_version = vllm_version
        self._root = root
        self._json_schema = json_schema
        self._context_tokens = context_tokens
        config = uvicorn.Config(self._app(), port=port, log_level="critical", access_log=False)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    @property
    def base_url(self) -> str:
        port = self._server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started:
            if not self._thread.is_alive():
                raise OSError("the scripted OpenAI server did not start; is its port taken?")
            time.sleep(0.005)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join()

    def push(self, *replies: Scripted) -> None:
        self._replies.extend(replies)

    def take_back(self) -> list[Scripted]:
        left = list(self._replies)
        self._replies.clear()
        return left

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits for something to have happened to this server; the test's timeout ends it."""
        while not condition():
            await asyncio.sleep(0.005)

    def serve_forever(self) -> None:
        self._server.run()

    def _app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/models", self._models),
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/v1/embeddings", self._embeddings, methods=["POST"]),
                Route("/version", self._version),
                Route("/tokenize", self._tokenize, methods=["POST"]),
            ]
        )

    async def _models(self, request: Request) -> Response:
        if rejection := self._unauthorized(request):
            return rejection
        owner = "vllm" if self._vllm_version else "scripted"
        length = {"max_model_len": self._context_tokens} if self._context_tokens else {}
        root = {"root": self._root} if self._root else {}
        cards = [
            {"id": name, "object": "model", "owned_by": owner, **length, **root}
            for name in self.models
        ]
        return JSONResponse({"object": "list", "data": cards})

    async def _version(self, request: Request) -> Response:
        if self._vllm_version is None:
            return error_response(404, {"message": "Not Found"})
        return JSONResponse({"version": self._vllm_version})

    async def _tokenize(self, request: Request) -> Response:
        if self._vllm_version is None:
            return error_response(404, {"message": "Not Found"})
        return JSONResponse({"count": prompt_tokens(await request.json())})

    async def _chat(self, request: Request) -> Response:
        if rejection := self._unauthorized(request):
            return rejection
        body = await request.json()
        self.requests.append(body)
        self.headers.append(dict(request.headers))
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        try:
            return await self._answer(request, body)
        finally:
            self.in_flight -= 1

    async def _embeddings(self, request: Request) -> Response:
        """Vectors that are different for different texts; a reply that is pushed goes first."""
        if rejection := self._unauthorized(request):
            return rejection
        body = await request.json()
        self.requests.append(body)
        if self._replies:
            reply = as_reply(self._replies.popleft())  # type: ignore[arg-type]
            return error_response(reply.status, {"message": reply.content, **reply.error})
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        size = body.get("dimensions") or EMBEDDING_SIZE
        data = [
            {"object": "embedding", "index": place, "embedding": packed(vector_of(text, size))}
            for place, text in enumerate(texts)
        ]
        tokens = sum(map(len, texts))
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        # In any order: the index says which is which.
        found = {"object": "list", "model": body["model"], "data": data[::-1], "usage": usage}
        return JSONResponse(found)

    async def _answer(self, request: Request, body: Body) -> Response:
        reply = self._reply(body, request.headers.get("x-request-id", ""))
        if await self._left_during(request, self._delay_s + reply.delay_s):
            self.disconnects += 1
            return Response(status_code=499)
        if reply.raw_body is not None:
            return Response(reply.raw_body, reply.status, dict(reply.headers))
        if reply.status != 200:
            fault = {"message": reply.content, **reply.error}
            return error_response(reply.status, fault, reply.headers)
        completion = self._completion(body, reply)
        self.completions.append(completion)
        if body.get("stream"):
            return StreamingResponse(
                self._streamed(completion, reply), media_type="text/event-stream"
            )
        return JSONResponse(completion, headers=dict(reply.headers))

    async def _streamed(self, completion: dict[str, Any], reply: Reply) -> AsyncIterator[str]:
        sent = 0
        try:
            async for chunk in streamed(completion, reply):
                while sent == reply.gate_after and reply.gate and not reply.gate.is_set():
                    await asyncio.sleep(0.005)
                yield chunk
                sent += 1
                await asyncio.sleep(reply.pace_s)
        except asyncio.CancelledError:
            self.disconnects += 1
            raise

    def _reply(self, body: Body, request_id: str) -> Reply:
        if body["model"] not in self.models:
            fault = {"code": "model_not_found"}
            return Reply(f"The model `{body['model']}` does not exist.", status=404, error=fault)
        if not self._json_schema and "response_format" in body:
            fault = {"param": "response_format"}
            return Reply("response_format json_schema is not supported", 400, error=fault)
        if self._context_tokens and prompt_tokens(body) > self._context_tokens:
            fault = {"code": "context_length_exceeded"}
            words = f"This model's maximum context length is {self._context_tokens} tokens."
            return Reply(words, 400, error=fault)
        scripted = self._scripted(request_id)
        if scripted is None:
            return default_reply(body)
        return as_reply(scripted(body) if callable(scripted) else scripted)

    def _scripted(self, request_id: str) -> Scripted | None:
        if self._script:
            step = int(request_id.split("/")[1]) - 1 if "/" in request_id else 0
            return self._script[step] if step < len(self._script) else None
        return self._replies.popleft() if self._replies else None

    async def _left_during(self, request: Request, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                while (await request.receive())["type"] != "http.disconnect":
                    pass
        except TimeoutError:
            return False
        return True

    def _unauthorized(self, request: Request) -> Response | None:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self._api_key is None or given == self._api_key:
            return None
        # The real service quotes the key, too.
        return error_response(401, {"message": f"Incorrect API key provided: {given}"})

    def _completion(self, body: Body, reply: Reply) -> dict[str, Any]:
        token_ids = list(reply.content.encode())
        choice: dict[str, Any] = {
            "index": 0,
            "message": {"role": "assistant", "content": reply.content, **reply.message},
            "finish_reason": reply.finish_reason,
        }
        prompt: dict[str, Any] = {}
        if self._vllm_version and body.get("return_token_ids"):
            choice["token_ids"] = token_ids
            prompt["prompt_token_ids"] = list(range(prompt_tokens(body)))
        if body.get("logprobs"):
            content = [{"token": chr(one), "logprob": -one / 256} for one in token_ids]
            choice["logprobs"] = {"content": content}
        usage = {"prompt_tokens": prompt_tokens(body), "completion_tokens": len(token_ids)}
        return {
            "id": f"chatcmpl-{len(self.requests)}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body["model"],
            "choices": [choice],
            "usage": usage if reply.usage is None else dict(reply.usage),
            **prompt,
        }


def vector_of(text: str, size: int) -> list[float]:
    """Floats that 32 bits hold exactly."""
    digest = hashlib.sha256(text.encode()).digest()
    return [digest[place % len(digest)] / 256 + 1 / 512 for place in range(size)]


def packed(vector: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


async def streamed(completion: dict[str, Any], reply: Reply) -> AsyncIterator[str]:
    """The completion as chunks of one character, then the report of usage; as vLLM does, the ids of
    its tokens are with their texts, and those of the prompt come first."""
    shared = {key: completion[key] for key in ("id", "created", "model")}
    chunk = {**shared, "object": "chat.completion.chunk", "usage": None}
    [whole] = completion["choices"]
    by_token = "token_ids" in whole
    if by_token:
        first = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
        prompt_ids = completion["prompt_token_ids"]
        yield event({**chunk, "choices": [first], "prompt_token_ids": prompt_ids})
    sent = 0
    for letter in reply.content[: reply.cut_after]:
        choice = {"index": 0, "delta": {"content": letter}, "finish_reason": None}
        if by_token:
            tokens = slice(sent, sent + len(letter.encode()))
            content = whole["logprobs"]["content"][tokens]
            choice |= {"token_ids": whole["token_ids"][tokens], "logprobs": {"content": content}}
            sent = tokens.stop
        yield event({**chunk, "choices": [choice]})
    if reply.cut_after is not None:
        raise ConnectionResetError("the stream is cut, as the test says")
    for index, call in enumerate(reply.message.get("tool_calls", ())):
        for delta in ({**call, "function": {**call["function"], "arguments": ""}}, call):
            piece = {"function": {"arguments": delta["function"]["arguments"]}}
            made = {"index": index, **(delta if delta is not call else piece)}
            choice = {"index": 0, "delta": {"tool_calls": [made]}, "finish_reason": None}
            yield event({**chunk, "choices": [choice]})
    logprobs = None if by_token else whole.get("logprobs")
    last: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": reply.finish_reason}
    last["logprobs"] = logprobs
    yield event({**chunk, "choices": [last]})
    yield event({**chunk, "choices": [], "usage": completion["usage"]})
    yield "data: [DONE]\n\n"


def event(chunk: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(chunk)}\n\n"


def as_reply(scripted: "str | Mapping[str, Any] | Reply") -> Reply:
    if isinstance(scripted, Reply):
        return scripted
    return Reply(scripted if isinstance(scripted, str) else json.dumps(scripted))


def default_reply(body: Body) -> Reply:
    """The smallest value of the schema asked for, or "ok"."""
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
    return as_reply("ok" if schema is None else smallest_instance(schema))


def prompt_tokens(body: Body) -> int:
    return sum(len(str(message.get("content") or "")) for message in body["messages"]) // 4 + 1


def error_response(
    status: int, fault: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> Response:
    return JSONResponse({"error": dict(fault)}, status, dict(headers or {}))


def main() -> None:
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--delay-s", type=float, default=0.0)
    parser.add_argument("--vllm-version")
    options = parser.parse_args()
    OpenAiServer(
        port=options.port, delay_s=options.delay_s, vllm_version=options.vllm_version
    ).serve_forever()


if __name__ == "__main__":
    main()
