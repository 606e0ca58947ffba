import json
from collections.abc import Callable
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from podium.episodes.v1 import episode_service_pb2
from podium.ledger.v1 import audit_service_pb2
from podium_kit.client import gateway as gateway_module
from podium_kit.client.errors import UsageError
from podium_kit.client.gateway import ATTEMPT_PAUSE_S, ATTEMPTS_MAX, Gateway, Unreachable
from podium_kit.client.rejections import Rejected

URL = "http://gateway.example.com"
Answer = Callable[[httpx.Request], httpx.Response]


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    # Not asyncio's own: background tasks of servers that other tests share would never yield.
    monkeypatch.setattr(gateway_module, "asyncio", SimpleNamespace(sleep=sleep))
    return slept


def gateway_of(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> Gateway:
    client = partial(httpx.AsyncClient, transport=httpx.MockTransport(answer))
    with monkeypatch.context() as patched:
        patched.setattr(httpx, "AsyncClient", client)
        return Gateway(URL, "key")


@pytest.mark.parametrize(
    "url",
    ["localhost:8080", "podium.example.com", "http://[::1", "http://host:port", "http://", ""],
)
def test_what_is_no_url_is_rejected_with_an_example(url: str) -> None:
    with pytest.raises(UsageError, match="is no URL") as rejected:
        Gateway(url, "key")
    assert "https://" in rejected.value.fix


@pytest.mark.parametrize("key", ["", "pod_x\n", "pod x", "pod_ключ"])
def test_what_is_no_key_is_rejected_and_not_shown(key: str) -> None:
    with pytest.raises(UsageError, match="API key") as rejected:
        Gateway(URL, key)
    assert not key.strip() or key.strip() not in str(rejected.value)


def proxys_page(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, html="<html>Please log in.</html>")


async def test_a_proxys_page_is_no_answer_of_a_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    async with gateway_of(monkeypatch, proxys_page) as gateway:
        with pytest.raises(Unreachable, match=f"{URL} .the answer is not JSON") as lost:
            await gateway.get("/v1/tools", episode_service_pb2.ListEpisodesResponse)
        assert "--url" in lost.value.fix
        with pytest.raises(Unreachable, match="not JSON"):
            async for _ in gateway.stream("/v1/export", audit_service_pb2.ExportChargesResponse):
                pass


async def test_a_stream_that_brings_something_each_time_is_resumed_without_end(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    last = 2 * ATTEMPTS_MAX

    def one_event(request: httpx.Request) -> httpx.Response:
        sequence = int(request.headers["last-event-id"]) + 1
        event: dict[str, Any] = {"sequence": sequence} | (
            {"finished": {}} if sequence == last else {}
        )
        return httpx.Response(200, text=f"data: {json.dumps(event)}\n\n")

    async with gateway_of(monkeypatch, one_event) as gateway:
        seen = [event.sequence async for event in gateway.events("e")]
    assert seen == list(range(1, last + 1))
    assert pauses == [ATTEMPT_PAUSE_S] * (last - 1)


async def test_a_gateway_that_stays_away_is_given_up_after_pauses(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    attempts = count(1)

    def away(request: httpx.Request) -> httpx.Response:
        next(attempts)
        raise httpx.ConnectError("away", request=request)

    async with gateway_of(monkeypatch, away) as gateway:
        with pytest.raises(Unreachable, match="ConnectError"):
            async for _ in gateway.events("e"):
                pass
    assert next(attempts) == ATTEMPTS_MAX + 1
    assert pauses == [ATTEMPT_PAUSE_S] * (ATTEMPTS_MAX - 1)


async def test_a_gateway_that_stops_and_starts_again_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    statuses = iter((503, 502, 200))

    def starting(_: httpx.Request) -> httpx.Response:
        event = json.dumps({"sequence": 1, "finished": {}})
        return httpx.Response(next(statuses), text=f"data: {event}\n\n")

    async with gateway_of(monkeypatch, starting) as gateway:
        assert [event.sequence async for event in gateway.events("e")] == [1]
    assert pauses == [ATTEMPT_PAUSE_S] * 2


async def test_an_episode_that_there_is_not_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    async with gateway_of(monkeypatch, lambda _: httpx.Response(404)) as gateway:
        with pytest.raises(Rejected):
            async for _ in gateway.events("e"):
                pass
    assert not pauses


async def test_parts_of_an_answer_are_shown_and_are_no_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = list[str]()

    def streamed(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.query.decode())
        part = json.dumps({"turn": 1, "start": 0, "text": "Ouaga"})
        last = json.dumps({"sequence": "2", "finished": {}})
        text = f"event: answer_part\ndata: {part}\n\nid: 2\nevent: finished\ndata: {last}\n\n"
        return httpx.Response(200, text=text)

    shown = list[episode_service_pb2.EpisodeAnswerPart]()
    async with gateway_of(monkeypatch, streamed) as gateway:
        seen = [event.sequence async for event in gateway.events("e", show=shown.append)]
    assert (seen, asked) == ([2], ["answer_parts=true"])
    assert [(part.turn, part.start, part.text) for part in shown] == [(1, 0, "Ouaga")]
