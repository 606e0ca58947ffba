"""What one client sends or asks for has a ceiling before it costs memory."""

import asyncio
import tracemalloc
from contextlib import AsyncExitStack

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from gateway.error_responses import error_response
from gateway.errors import ServerBusy
from gateway.json_structure import require_bounded_json
from gateway.request_body import LargeBodies, RequestBodyMiddleware
from integration.gateway.gateway_under_test import GatewayUnderTest
from podium_kit.money import InvalidMoney, Money

MIB = 1024 * 1024
NUMBERS = ["1e200000000", "1e-200000000", "-1e200000000", "9" * MIB, "0." + "1" * MIB, "NaN", "inf"]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number[:12])
async def test_a_budget_of_a_gigabyte_of_digits_is_rejected_without_writing_them(
    gateway: GatewayUnderTest, number: str
) -> None:
    body = {
        "model": "podium",
        "messages": [{"role": "user", "content": "6*7?"}],
        "podium": {"budget_usd": number},
    }
    tracemalloc.start()
    async with gateway.http() as client:
        reply = await client.post("/v1/chat/completions", json=body)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "podium.budget_usd")
    assert len(reply.content) < 1_000
    assert peak_bytes < 40 * MIB
    assert not gateway.episodes.episodes


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number[:12])
def test_money_of_a_gigabyte_of_digits_is_rejected_without_writing_them(number: str) -> None:
    with pytest.raises(InvalidMoney) as caught:
        Money.parse(number, "USD")
    assert len(caught.value.message) < 200


async def test_a_made_up_name_of_a_megabyte_is_not_echoed(gateway: GatewayUnderTest) -> None:
    task = [{"role": "user", "content": "6*7?"}]
    for made_up in ({"x" * MIB: 1}, {"podium": {"x" * MIB: 1}}, {"model": "x" * MIB}):
        async with gateway.http() as client:
            reply = await client.post(
                "/v1/chat/completions", json={"model": "podium", "messages": task, **made_up}
            )
        assert 400 <= reply.status_code < 500
        assert len(reply.content) < 10_000


EMPTY_MESSAGES = b'{"spec": {"task": "6*7?", "history": [%s{}]}}' % (b"{}," * 3_670_000)
BOM = b"\xef\xbb\xbf"
DEEP = b'{"spec": ' + b"[" * 40_000 + b"]" * 40_000 + b"}"


@pytest.mark.parametrize("body", [EMPTY_MESSAGES, DEEP, BOM + DEEP], ids=len)
@pytest.mark.parametrize("path", ["/v1/episodes", "/v1/chat/completions"])
async def test_json_that_costs_more_than_its_bytes_is_rejected_unparsed(
    gateway: GatewayUnderTest, path: str, body: bytes
) -> None:
    tracemalloc.start()
    async with gateway.http() as client:
        reply = await client.post(path, content=body, headers={"content-type": "application/json"})
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (reply.status_code, reply.json()["error"]["reason"]) == (400, "MALFORMED_REQUEST")
    # The client's copy, what arrived, and its brackets.
    assert peak_bytes < 8 * len(body) + 8 * MIB


@pytest.mark.parametrize("part", [b'\\"', b'"', b"\\", b'"\\"'])
def test_an_endless_string_is_read_once(part: bytes) -> None:
    """Read again from each of its quotes, it would take days."""
    require_bounded_json(b'{"task": "' + part * (4 * MIB))


def test_brackets_and_commas_inside_strings_count_nothing() -> None:
    require_bounded_json(b'{"task": "' + b'[{,\\"' * 200_000 + b'"}')


async def test_large_bodies_take_turns_and_small_ones_pass() -> None:
    sizes: list[int] = []
    peaks: list[int] = []
    small, large = 1_000, MIB + 1

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        size = len((await receive())["body"])
        sizes.append(size)
        peaks.append(sum(sizes))
        if size > small:
            await answered_small.wait()
        sizes.remove(size)
        start: Message = {"type": "http.response.start", "status": 200, "headers": []}
        await send(start)
        await send({"type": "http.response.body", "body": b""})

    async def post(size: int) -> int:
        return (await client.post("http://gateway", content=b" " * size)).status_code

    answered_small = asyncio.Event()
    guarded = RequestBodyMiddleware(app, bytes_max=large, timeout_s=30)
    client = httpx.AsyncClient(transport=httpx.ASGITransport(guarded))
    async with client, asyncio.TaskGroup() as group:
        posts = [group.create_task(post(large)) for _ in range(8)]
        assert await post(small) == 200
        answered_small.set()
    assert {each.result() for each in posts} == {200}
    assert max(peaks) <= 2 * large + small


async def test_a_large_body_whose_turn_never_comes_is_answered_503() -> None:
    bodies = LargeBodies(patience_s=0.01, turn_s=3600)
    async with bodies.turn(), bodies.turn():
        with pytest.raises(ServerBusy) as busy:
            await AsyncExitStack().enter_async_context(bodies.turn())
    async with bodies.turn(), bodies.turn():
        pass
    reply = error_response(busy.value)
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")


async def test_a_chat_that_waits_for_its_answer_does_not_keep_its_turn() -> None:
    bodies = LargeBodies(patience_s=3600, turn_s=0.01)
    async with AsyncExitStack() as waiting:
        for _ in range(5):
            await waiting.enter_async_context(bodies.turn())
