import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types
import pytest
from google.protobuf import struct_pb2
from mcp.client import streamable_http
from mcp.shared.message import SessionMessage

from callers import make_identity
from podium_kit.failures import FailureKind
from podium_kit.rpc.identity import acting_as
from tool_adapters.adapter import CallFailed, reply_json
from tool_adapters.grpc.adapter import VALUES_MAX, _as_json
from tool_adapters.http.auth import HttpAuthenticator
from tool_adapters.http.client import (
    Credential,
    HttpClient,
    HttpRequest,
)
from tool_adapters.llm.embeddings import NUMBERS_MAX, read_embeddings
from tool_adapters.mcp import guard
from tool_adapters.mcp.stdio import TOO_LARGE, stdio_streams
from tool_adapters.models import HeaderAuth
from tool_adapters.network_guard import NetworkGuard
from tool_adapters.secret_store import MountedSecrets

_ONE = struct_pb2.Value(number_value=1)
MANY = b"[" + b"{}," * 60_000 + b"{}]"
VECTORS = b'{"data": [{"index": 0, "embedding": [' + b"0," * NUMBERS_MAX + b"0]}]}"


@pytest.mark.parametrize(
    "read",
    [
        lambda: reply_json(MANY),
        lambda: reply_json(MANY.decode()),
        lambda: reply_json(b"[" * 200 + b"]" * 200),
        lambda: read_embeddings(VECTORS, 1),
        lambda: _as_json(_values(VALUES_MAX + 1)),
        lambda: _as_json(struct_pb2.Struct(fields={str(n): _ONE for n in range(VALUES_MAX)})),
    ],
    ids=["bytes", "text", "deep", "vectors", "list of gRPC", "map of gRPC"],
)
def test_too_many_values_are_the_tools_failure(read: Callable[[], Any]) -> None:
    with pytest.raises(CallFailed, match="ask for less") as raised:
        read()
    assert raised.value.failure.kind is FailureKind.OUTPUT_TOO_LARGE


def _values(count: int) -> struct_pb2.ListValue:
    return struct_pb2.ListValue(values=[_ONE] * count)


def test_as_many_values_as_fit_are_read() -> None:
    assert len(json.loads(_as_json(_values(1000)))) == 1000
    assert len(reply_json(b'["' + b"[{,\\n" * 200_000 + b'"]')[0]) == 800_000


def test_bytes_of_utf_16_do_not_hide_values() -> None:
    with pytest.raises(ValueError, match="utf-8"):
        reply_json("[1]".encode("utf-16"))


def test_an_mcp_message_over_http_of_many_values_is_not_parsed() -> None:
    assert guard
    with pytest.raises(httpx2.StreamError, match=TOO_LARGE):
        vars(streamable_http)["jsonrpc_message_adapter"].validate_json(MANY, by_name=False)


async def test_an_mcp_message_of_a_process_of_many_values_is_not_parsed() -> None:
    program = f"input(); print('[' + '{{}},' * {MANY.count(b'{')} + '1]', flush=True); input()"

    async def start() -> Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program),
            stdin=PIPE,
            stdout=PIPE,
            limit=1 << 20,
            start_new_session=True,
        )

    request = mcp_types.JSONRPCRequest(jsonrpc="2.0", id=7, method="tools/call")
    async with stdio_streams(start) as (received, sent):
        await sent.send(SessionMessage(request))
        answer = await received.receive()
        assert isinstance(answer, SessionMessage)
        assert isinstance(answer.message, mcp_types.JSONRPCError)
        assert (answer.message.id, answer.message.error.message) == (7, TOO_LARGE)


SMUGGLED = b"0\r\n\r\nPOST /inbox HTTP/1.1\r\nHost: api\r\nContent-Length: 200\r\n\r\n"
ENDINGS = (
    *("Transfer-Encoding", "transfer-encoding", "Transfer_Encoding", "Content-Length"),
    *("content_length", "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization"),
    *("TE", "Trailer", "Upgrade", "HTTP2-Settings", "Host", "Expect"),
    # None of these is a name (RFC 9110, section 5.6.2).
    *("Transfer-Encoding ", " Host", "X:Y", "X\r\nHost", "X\n", "", "X\0", "X\u2028Y", "Ünder"),
)


class Connections:
    def __init__(self) -> None:
        self.requests: list[int] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(self.requests)
        self.requests.append(0)
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            self.requests[number] += 1
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    await reader.readexactly(int(line.split(b":")[1]))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        writer.close()


@asynccontextmanager
async def counting() -> AsyncIterator[tuple[Connections, HttpClient]]:
    found = Connections()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with server, HttpClient(NetworkGuard(allow_private=True)) as client:
        yield found, client
        server.close()


async def send(client: HttpClient, tenant: str, request: HttpRequest) -> None:
    with acting_as(make_identity(tenant)):
        async with client.opened(request) as arriving:
            await arriving.whole(100)


@pytest.mark.parametrize("name", ENDINGS)
@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "DELETE"])
async def test_no_header_that_frames_a_request_leaves(name: str, method: str) -> None:
    async with counting() as (server, client):
        request = HttpRequest(method, server.url, {name: "chunked"}, body=SMUGGLED)
        with pytest.raises(CallFailed) as failed:
            await send(client, "evil", request)
    assert failed.value.failure.kind is FailureKind.INVALID_ARGUMENTS
    assert failed.value.unsent
    assert not server.requests


@pytest.mark.parametrize("value", ["a\r\nHost: b", "a\nb", "a\rb", "a\0b", "\x1b[1m", "\x7f"])
async def test_a_value_is_one_line(value: str) -> None:
    async with counting() as (server, client):
        with pytest.raises(CallFailed, match="use one line"):
            await send(client, "evil", HttpRequest("GET", server.url, {"X-Note": value}))
    assert not server.requests


@pytest.mark.parametrize("path", ["a b", "a\r\nX: y", "a\tb", "x HTTP/1.1\r\n\r\nGET /inbox"])
async def test_a_url_does_not_end_the_first_line(path: str) -> None:
    async with counting() as (server, client):
        with pytest.raises(CallFailed, match="percent-encoded"):
            await send(client, "evil", HttpRequest("GET", server.url + path))
    assert not server.requests


async def test_a_body_ends_where_it_ends_also_that_of_a_get() -> None:
    async with counting() as (server, client):
        for method in ("GET", "POST", "GET", "PUT", "DELETE"):
            await send(client, "acme", HttpRequest(method, server.url, body=SMUGGLED))
    assert server.requests == [5]


async def test_connections_are_kept_for_a_tenant_and_a_credential() -> None:
    keepers: list[tuple[str, Credential]] = [
        ("evil", ("", "")),
        ("bank", ("", "")),
        ("bank", ("bank", "key")),
        ("bank", ("bank", "other-key")),
        # Two people of one tenant, each with a secret of the same name.
        ("bank", ("bank/ann", "user/key")),
        ("bank", ("bank/bob", "user/key")),
        # The platform's secret in a shared tool.
        ("bank", ("", "key")),
        ("evil", ("", "key")),
    ]
    async with counting() as (server, client):
        for _ in range(2):
            for tenant, credential in keepers:
                request = HttpRequest("GET", server.url, credential=credential)
                await send(client, tenant, request)
    assert server.requests == [2] * len(keepers)


async def test_a_connection_is_kept_for_all_the_secrets_of_its_request() -> None:
    names = {"one": "s3cr3t-of-one", "two": "s3cr3t-of-two"}
    mounted = {f"TOOL_ADAPTERS_SECRET_BANK__{name.upper()}": text for name, text in names.items()}
    unreached: Any = None
    authenticator = HttpAuthenticator(MountedSecrets(None, mounted), unreached)
    request = HttpRequest("GET", "https://api.example.com")
    for name in names:
        key = HeaderAuth(f"X-{name}", "", name)
        request = await authenticator.signed(request, key, "bank", unreached)
    assert request.credential == ("bank", "one", "bank", "two")
