import asyncio
from pathlib import Path

import httpx
import pytest

from embedded_servers import Database
from gateway.config import GatewaySettings
from gateway.http.connection import BoundedHttp
from integration.gateway.gateway_under_test import Gateway, run_gateway

START = b"GET /healthz HTTP/1.1\r\nhost: podium\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedHttp, "header_timeout_s", 0.5)


async def connect(gateway: Gateway) -> Streams:
    url = httpx.URL(gateway.base_url)
    return await asyncio.open_connection(url.host, url.port)


async def said(streams: Streams) -> bytes:
    reader, writer = streams
    async with asyncio.timeout(20):
        try:
            return await reader.read()
        finally:
            writer.close()


async def test_headers_without_an_end_are_rejected(gateway: Gateway) -> None:
    streams = await connect(gateway)
    header = b"x-more: " + b"x" * BoundedHttp.header_bytes_max
    streams[1].write(START + header)
    assert (await said(streams)).startswith(b"HTTP/1.1 431 ")


async def test_a_gigabyte_of_headers_is_not_read(gateway: Gateway) -> None:
    reader, writer = await connect(gateway)
    writer.write(START)
    with pytest.raises(ConnectionError):
        for number in range(16_000):
            writer.write(f"x-{number}: ".encode() + b"x" * 65_000 + b"\r\n")
            await writer.drain()
    reader.feed_eof()
    writer.close()


@pytest.mark.parametrize("first", [b"", b"\r\n", START])
async def test_a_connection_that_never_asks_is_ended(gateway: Gateway, first: bytes) -> None:
    streams = await connect(gateway)
    streams[1].write(first)
    assert (await said(streams)).startswith(b"HTTP/1.1 408 ")


async def test_headers_that_drip_are_ended_and_do_not_hold_others_up(gateway: Gateway) -> None:
    slow = [await connect(gateway) for _ in range(200)]
    for _, writer in slow:
        writer.write(START)
    assert (await gateway.get("/healthz", key="")).is_success
    assert {(await said(streams))[:12] for streams in slow} == {b"HTTP/1.1 408"}


async def test_a_connection_that_falls_silent_after_its_answer_is_ended(gateway: Gateway) -> None:
    streams = await connect(gateway)
    streams[1].write(START + b"\r\n")
    assert (await streams[0].readline()).startswith(b"HTTP/1.1 200")
    # Begins no request, and would start no clock of the parser's.
    streams[1].write(b"\r\n")
    assert b"HTTP/1.1 408 " in await said(streams)


async def test_the_next_request_of_a_connection_has_its_own_time(gateway: Gateway) -> None:
    for _ in range(4):
        assert (await gateway.get("/healthz", key="")).is_success
        await asyncio.sleep(0.3)


async def test_a_slow_answer_is_not_a_slow_question(gateway: Gateway) -> None:
    gateway.episodes.pause_s = 1.5
    body = {"model": "podium", "messages": [{"role": "user", "content": "6*7?"}]}
    assert (await gateway.post("/v1/chat/completions", json=body)).is_success


async def test_an_idle_connection_is_kept_longer_than_clients_and_load_balancers_keep_it(
    database: Database, tmp_path: Path
) -> None:
    assert GatewaySettings.model_fields["idle_connection_s"].default > 60
    async with run_gateway(await database("gateway"), tmp_path, idle_connection_s=0.2) as gateway:
        streams = await connect(gateway)
        streams[1].write(START + b"\r\n")
        answer = await said(streams)
    # Ended by the setting, in order, with nothing after the answer.
    assert answer.count(b"HTTP/1.1") == 1
    assert answer.startswith(b"HTTP/1.1 200")
