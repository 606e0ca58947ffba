from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

# Words of one meaning share a direction; other words have none.
MEANINGS = (
    {"leave", "holiday", "vacation", "absence"},
    {"pay", "salary", "wage", "remuneration"},
    {"train", "railway", "locomotive"},
)


@dataclass
class EmbeddingsServer:
    base_url: str = ""
    status: int = 200
    reply: object = None
    usage: object = None
    breaks_off: bool = False
    # Requests that it answers with vectors before it does not.
    answers_max: int | None = None
    # Texts of each request that it answered with vectors.
    billed: list[int] = field(default_factory=list)
    requests: list[tuple[str, int]] = field(default_factory=list)

    async def embeddings(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.requests.append((request.headers.get("authorization", ""), len(body["input"])))
        if self.breaks_off:
            assert request.transport is not None
            request.transport.close()
        if self.answers_max is not None and len(self.requests) > self.answers_max:
            return web.json_response({}, status=503)
        if self.status != 200 or self.reply is not None:
            return web.json_response(self.reply or {}, status=self.status)
        self.billed.append(len(body["input"]))
        items = [{"index": n, "embedding": _vector(text)} for n, text in enumerate(body["input"])]
        # In any order: the index says which is which.
        return web.json_response({"model": body["model"], "data": items[::-1], "usage": self.usage})


def _vector(text: str) -> list[float]:
    words = set(text.lower().replace(".", " ").replace("?", " ").split())
    return [0.1, *(float(len(words & meaning)) for meaning in MEANINGS)]


@asynccontextmanager
async def running_embeddings() -> AsyncIterator[EmbeddingsServer]:
    server = EmbeddingsServer()
    app = web.Application()
    app.router.add_post("/v1/embeddings", server.embeddings)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield server
    finally:
        await runner.cleanup()
