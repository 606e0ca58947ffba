import asyncio
from collections import Counter

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from callers import make_identity
from gateway.errors import ServerBusy
from gateway.http.error_responses import error_response
from gateway.http.request_body import LARGE_AT_ONCE, LargeBodies, RequestBodyMiddleware, Turn
from integration.gateway.gateway_under_test import Gateway
from podium_kit.rpc.identity import acting_as

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
MIB = 1024 * 1024
SMALL, LARGE = 1_000, MIB + 1
CHUNKED = "transfer-encoding: chunked\r\n\r\n5\r\n{    \r\n"


async def begin(gateway: Gateway, head: str, rest: str) -> Streams:
    url = httpx.URL(gateway.base_url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(f"{head} HTTP/1.1\r\nhost: podium\r\n{rest}".encode())
    await writer.drain()
    return reader, writer


@pytest.mark.parametrize("rest", [CHUNKED, f"content-length: {5 * MIB}\r\n\r\n{{"])
@pytest.mark.parametrize("head", ["POST /healthz", "GET /", "POST /nowhere"])
async def test_who_is_unknown_sends_no_body(gateway: Gateway, head: str, rest: str) -> None:
    reader, writer = await begin(gateway, head, rest)
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"only paths under /v1/ take a body" in answer


@pytest.mark.parametrize("rest", [CHUNKED, f"content-length: {5 * MIB}\r\n\r\n{{"])
async def test_bodies_that_never_come_take_no_turn(gateway: Gateway, rest: str) -> None:
    key = f"authorization: Bearer {gateway.key}\r\n"
    waiting = [await begin(gateway, "POST /v1/episodes", key + rest) for _ in range(5)]
    reply = await gateway.post(
        "/v1/episodes", content=b" " * LARGE, key=await gateway.new_key("other")
    )
    assert reply.status_code == 400
    for reader, writer in waiting:
        assert not reader.at_eof()
        writer.close()


class Parser:
    def __init__(self) -> None:
        self.parsing: list[tuple[str, asyncio.Event]] = []
        self.most = 0
        self.answer = asyncio.Event()
        guarded = RequestBodyMiddleware(self._answer, bytes_max=LARGE, timeout_s=300)
        transport = httpx.ASGITransport(guarded)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://gateway/v1/")

    async def post(self, tenant: str, size: int) -> int:
        with acting_as(make_identity(tenant)):
            return (await self.client.post(tenant, content=b" " * size)).status_code

    async def end_first(self) -> None:
        self.parsing.pop(0)[1].set()
        await self.settled()

    async def settled(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def _left(self, receive: Receive) -> None:
        await receive()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if len((await receive())["body"]) > SMALL:
            parsed = asyncio.Event()
            self.parsing.append((str(scope["path"]).removeprefix("/v1/"), parsed))
            self.most = max(self.most, len(self.parsing))
            await parsed.wait()
            async with asyncio.TaskGroup() as group:
                leaving = group.create_task(self._left(receive))
                await self.answer.wait()
                leaving.cancel()
        start: Message = {"type": "http.response.start", "status": 200, "headers": []}
        await send(start)
        await send({"type": "http.response.body", "body": b""})


async def test_a_turn_goes_to_the_tenant_that_has_the_fewest_and_small_bodies_pass() -> None:
    parser = Parser()
    async with parser.client, asyncio.TaskGroup() as group:
        posts = [group.create_task(parser.post("acme", LARGE)) for _ in range(6)]
        await parser.settled()
        posts.append(group.create_task(parser.post("other", LARGE)))
        await parser.settled()
        assert await parser.post("acme", SMALL) == 200
        assert Counter(tenant for tenant, _ in parser.parsing) == {"acme": LARGE_AT_ONCE}
        await parser.end_first()
        assert Counter(tenant for tenant, _ in parser.parsing) == {"acme": 1, "other": 1}
        # Nothing is answered yet: what is parsed waits for its answer without a turn.
        while parser.parsing:
            await parser.end_first()
        assert not any(each.done() for each in posts)
        parser.answer.set()
    assert {each.result() for each in posts} == {200}
    assert parser.most == LARGE_AT_ONCE


async def test_a_large_body_whose_turn_never_comes_is_answered_503() -> None:
    bodies = LargeBodies(patience_s=0.01, turn_s=3600)
    with acting_as(make_identity()):
        turns = [await bodies.turn() for _ in range(LARGE_AT_ONCE)]
        with pytest.raises(ServerBusy) as busy:
            await bodies.turn()
        for turn in turns:
            turn.end()
            turn.end()
        for _ in range(LARGE_AT_ONCE):
            await bodies.turn()
        with pytest.raises(ServerBusy):
            await bodies.turn()
    reply = error_response(busy.value)
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")


async def test_a_turn_ends_by_itself() -> None:
    ended = asyncio.Event()
    Turn(ended.set, 0.01)
    await ended.wait()
